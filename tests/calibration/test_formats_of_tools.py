"""Tables of other tools, each by itself: bytes and numbers as their descriptions have them."""

import json
import struct

import numpy as np
import pytest

from relay_int8.calibration import CalibrationTable, Entry, Range
from relay_int8.calibration.formats import (
    FORMATS,
    Exchange,
    find_format,
    fit,
    given_ranges,
    read_exchange,
)
from relay_int8.calibration.formats.qtable import excluded, read_qtable
from relay_int8.errors import CalibrationError
from tests.calibration.tables import MIXED, NCNN, TENSORRT, TPU_MLIR, entry, through_json

F = np.float32
pytestmark = pytest.mark.fast


def test_tensorrt_scales():
    entries = find_format("tensorrt").read(TENSORRT).table.entries
    assert list(entries)[2:5] == ["x:0", "(Unnamed Layer* 12) [Convolution]_output", "a: b"]
    assert abs(float(entries["data_0"].qparams().scale) - 2.008338) < 1e-6
    assert entries["x:0"].high == 127 and entries["x:0"].low == -127
    assert (entries["dead"].low, entries["dead"].high) == (0, 0)


def test_every_tensorrt_scale_survives():
    bits = np.random.default_rng(0).integers(0x20000000, 0x5F000000, 4000)
    lines = [f"t{index}: {value:08x}" for index, value in enumerate(bits)]
    text = "\n".join(["TRT-8601-MinMaxCalibration", *lines]) + "\n"
    form = find_format("tensorrt")
    exchange = through_json(form.read(text))
    scales = [item.qparams().scale for item in exchange.table.entries.values()]
    np.testing.assert_array_equal(np.array(scales, F).view(np.uint32), bits)
    assert form.write(exchange) == text


def test_our_thresholds_survive_tensorrt():
    rng = np.random.default_rng(1)
    entries = {
        str(i): Entry(scheme="s8", low=-high, high=high, observed=Range(), method="kl-tensorrt")
        for i, high in enumerate(rng.lognormal(size=3000).astype(F))
    }
    form = find_format("tensorrt")
    back = form.read(form.write(Exchange(table=CalibrationTable(entries=entries)))).table.entries
    for name, item in entries.items():
        assert back[name].qparams() == item.qparams()


@pytest.mark.parametrize(
    "algorithm",
    ["EntropyCalibration", "EntropyCalibration2", "MinMaxCalibration", "LegacyCalibration"],
)
def test_the_header_of_every_algorithm_is_kept(algorithm, tmp_path):
    text = f"TRT-100300-{algorithm}\nx: 3c8f5c29\n"
    (tmp_path / "cache").write_text(text)
    exchange, form = read_exchange(tmp_path / "cache")
    assert form.name == "tensorrt" and form.write(through_json(exchange)) == text


def test_the_bits_of_a_scale_by_hand():
    digits = struct.pack("!f", 2.0).hex()
    one = Exchange(table=CalibrationTable(entries={"x": entry(-254, 254)}))
    assert find_format("tensorrt").write(one) == f"TRT-8601-EntropyCalibration2\nx: {digits}\n"
    assert find_format("ncnn").write(one) == "x 0.500000 \n"


def test_ncnn_multipliers():
    exchange = find_format("ncnn").read(NCNN + "\nafter 1.0\n")
    assert list(exchange.table.entries) == ["conv1", "conv2_dw"]
    assert exchange.table.entries["conv1"].high == F(127 / 40.527767)
    np.testing.assert_array_equal(
        exchange.weights["conv1_param_0"], [1 / 156.63984, 1 / 149.203217]
    )
    commented = find_format("ncnn").read(NCNN + "#fc6 31.2\n")
    assert commented.table.notes == ("ncnn leaves fc6 float",)
    assert "fc6" not in commented.table.entries


def test_ncnn_without_weights_is_not_taken_for_ranges(tmp_path):
    one = Exchange(table=CalibrationTable(entries={"conv1": entry(-254, 254)}))
    (tmp_path / "file").write_text(find_format("ncnn").write(one))
    exchange, form = read_exchange(tmp_path / "file")
    assert form.name == "ncnn" and exchange.table.entries["conv1"].high == 254


def test_tpu_mlir_sections_and_older_headers():
    form = find_format("tpu-mlir")
    text = "# mlir version: a cali version 1.0\n# op_name threshold min max\nx 2.0 -1.0 2.0\n"
    exchange = form.read(text + "#weight_scale\nw 1.0\n")
    assert list(exchange.table.entries) == ["x"]
    assert "#weight_scale" in exchange.table.notes[-1]
    item = form.read(TPU_MLIR).table.entries
    assert item["images"].scheme == "u8" and item["122_Conv"].scheme == "s8"
    assert item["122_Conv"].observed.low == F(-102.5830231)


def test_qtable():
    text = "###\n# op_name   quantize_mode\nconv 1 F16\nfc INT8\n"
    modes = read_qtable(text)
    assert modes == {"conv 1": "F16", "fc": "INT8"} and excluded(modes) == ("conv 1",)
    assert read_qtable("conv1\tBF16  \r\nfc   INT8\n") == {"conv1": "BF16", "fc": "INT8"}
    with pytest.raises(CalibrationError, match="line 1: 'conv1' is not: name mode"):
        read_qtable("conv1\n")


def test_onnxruntime_reads_its_json(tmp_path):
    calibrate = pytest.importorskip("onnxruntime.quantization.calibrate")
    if not hasattr(calibrate, "load_tensors_data"):
        pytest.skip("this ONNX Runtime does not keep ranges")
    path = tmp_path / "calibration.json"
    path.write_text(find_format("onnxruntime").write(MIXED))
    loaded = calibrate.load_tensors_data(path)
    assert loaded["z"].range_value == (F(-0.1), F(3))
    calibrate.save_tensors_data(loaded, path)
    assert read_exchange(path)[0].table.entries["z"].high == 3


def test_the_other_shape_of_onnxruntimes_json():
    number = {"data": [2.5], "dtype": "float32", "CLS": "numpy.array"}
    text = json.dumps({"x": {"lowest": -1.5, "highest": number, "CLS": "TensorData"}})
    item = find_format("onnxruntime").read(text).table.entries["x"]
    assert (item.low, item.high, item.scheme) == (-1.5, 2.5, "asymmetric")


def test_aimet_encodings():
    old = {
        "version": "0.6.1",
        "activation_encodings": {
            "x": [
                {
                    "bitwidth": 8,
                    "dtype": "int",
                    "is_symmetric": "False",
                    "max": 2.55 - 0.64,
                    "min": -0.64,
                    "offset": -64,
                    "scale": 0.01,
                }
            ]
        },
        "param_encodings": {},
    }
    item = find_format("aimet").read(json.dumps(old)).table.entries["x"]
    assert item.qparams().scale == F(0.01) and item.qparams().zero_point == 64
    new = {
        "version": "1.0.0",
        "activation_encodings": [
            {
                "name": "x",
                "dtype": "INT",
                "bw": 8,
                "is_sym": True,
                "enc_type": "PER_TENSOR",
                "scale": [0.02],
                "offset": [-128],
            }
        ],
        "param_encodings": [
            {
                "name": "w",
                "dtype": "INT",
                "bw": 8,
                "is_sym": True,
                "enc_type": "PER_CHANNEL",
                "scale": [0.5, 0.25],
                "offset": [-128, -128],
            }
        ],
    }
    exchange = find_format("aimet").read(json.dumps(new))
    assert exchange.table.entries["x"].qparams().scale == F(0.02)
    np.testing.assert_array_equal(exchange.weights["w"], F([0.5, 0.25]))
    again = find_format("aimet").read(find_format("aimet").write(exchange))
    assert again.table.entries["x"].qparams() == exchange.table.entries["x"].qparams()
    np.testing.assert_array_equal(again.weights["w"], F([0.5, 0.25]))


def test_aimet_encodings_of_version_2():
    document = {
        "version": "2.0.0",
        "encodings": [
            {"name": "a", "output_dtype": "uint8", "y_scale": 0.01, "y_zero_point": 41},
            {"name": "r", "output_dtype": "uint8", "y_scale": 0.5},
            {"name": "s", "output_dtype": "int8", "y_scale": 0.02, "y_zero_point": 0},
            {"name": "m", "output_dtype": "uint8", "y_scale": 0.02, "y_zero_point": 128},
            {"name": "w", "output_dtype": "int8", "y_scale": [0.5, 0.25], "axis": 0},
            {"name": "b", "output_dtype": "int32", "y_scale": [0.1, 0.2], "axis": 0},
        ],
    }
    text = json.dumps(document)
    form = find_format("aimet")
    assert [name for name, known in FORMATS.items() if known.recognizes(text)] == ["aimet"]
    exchange = form.read(text)
    entries = exchange.table.entries
    schemes = {"a": "asymmetric", "r": "u8", "s": "s8", "m": "s8"}
    assert {name: item.scheme for name, item in entries.items()} == schemes
    params = {name: item.qparams() for name, item in entries.items()}
    assert (params["a"].scale, params["a"].zero_point) == (F(0.01), 41)
    assert (params["r"].scale, params["s"].scale) == (F(0.5), F(0.02))
    assert params["m"] == params["s"]
    np.testing.assert_array_equal(exchange.weights["w"], [0.5, 0.25])
    again = form.read(form.write(exchange)).table.entries
    assert {name: item.qparams() for name, item in again.items()} == params
    document["encodings"][0]["output_dtype"] = "uint16"
    with pytest.raises(CalibrationError, match="a is uint16; int8 or uint8 is needed"):
        form.read(json.dumps(document))


def test_ranges_of_your_own():
    table = given_ranges(
        {"x": 2.5, "y": [0, 6], "z": (-1, 3), "s": {"scale": 0.02}, "t": {"threshold": 1}}
    )
    tensors = {"x": "input", "y": "u8", "z": "asymmetric", "s": "s8", "t": "u8"}
    entries = fit(table, tensors).entries
    fit(table, tensors).check(tensors)
    assert (entries["x"].low, entries["x"].high) == (-2.5, 2.5)
    assert (entries["z"].low, entries["z"].high, entries["z"].scheme) == (-1, 3, "asymmetric")
    assert entries["s"].qparams().scale == F(0.02)
    assert entries["t"].qparams().scale == F(1 / 255)
    assert CalibrationTable.from_json(table.to_json()).entries == table.entries


@pytest.mark.parametrize(
    "text",
    ['{"x": 1.5, "y": NaN}', '{"x": 1.5, "y": [1, 2, 3]}', '{"x": 1.5, "y": null}'],
)
def test_wrong_numbers_of_your_own_are_named(text, tmp_path):
    (tmp_path / "mine.json").write_text(text)
    with pytest.raises(CalibrationError, match="these ranges make no sense: y: "):
        read_exchange(tmp_path / "mine.json")
