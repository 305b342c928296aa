"""Tables of other tools: round trips, what each leaves out, and broken files."""

import numpy as np
import pytest

from relay_int8.calibration import CalibrationTable, Grid, Histogram
from relay_int8.calibration.formats import (
    FORMATS,
    Exchange,
    find_format,
    fit,
    format_of_name,
    given_ranges,
    read_exchange,
)
from relay_int8.errors import CalibrationError, ConfigError
from relay_int8.notices import Notice
from tests.calibration.tables import FILES, MIXED, entry, through_json

F = np.float32
pytestmark = pytest.mark.fast


@pytest.mark.parametrize("name", FILES)
def test_a_file_comes_back_byte_for_byte(name):
    form = find_format(name)
    exchange = form.read(FILES[name])
    assert form.write(exchange) == FILES[name]
    assert form.write(through_json(exchange)) == FILES[name]


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_recognized_by_its_text(name, tmp_path):
    (tmp_path / "file").write_text(FILES[name])
    assert read_exchange(tmp_path / "file")[1].name == name


@pytest.mark.parametrize("name", ["onnxruntime", "aimet", "ranges", "relay-int8"])
def test_formats_with_both_ends_keep_every_scheme(name, tmp_path):
    form = find_format(name)
    (tmp_path / "file").write_text(form.write(MIXED))
    exchange, found = read_exchange(tmp_path / "file")
    assert found.name == name and form.losses(MIXED) == []
    tensors = {"a b": "s8", "r:0": "u8", "z": "asymmetric"}
    back = fit(exchange.table, tensors).entries
    for tensor, item in MIXED.table.entries.items():
        assert back[tensor].qparams() == item.qparams(), tensor


@pytest.mark.parametrize("name", ["tensorrt", "tpu-mlir", "onnxruntime-text"])
def test_names_that_no_line_can_hold(name):
    broken = Exchange(table=CalibrationTable(entries={"a\nb": entry(-1, 1)}))
    with pytest.raises(CalibrationError, match="line breaks"):
        find_format(name).losses(broken)


def test_losses_are_stated():
    grid = Grid(F(0), F(6), True, 4)
    counts = Histogram(grid, np.array([1, 2, 3, 4]))
    entries = {**MIXED.table.entries, "h": entry(0, 6, "u8", histogram=counts)}
    table = CalibrationTable(entries=entries, means={"h": F([1])})
    full = Exchange(table=table, weights={"w": F([1])})
    text = "; ".join(find_format("tensorrt").losses(full))
    for part in ("weights of 1 layers", "histograms", "means", "1 ranges are not symmetric", "z"):
        assert part in text
    assert "six decimals" in "; ".join(
        find_format("ncnn").losses(Exchange(table=CalibrationTable(entries={"x": entry(-1, 1)})))
    )
    assert "threshold / 128" in "; ".join(find_format("tpu-mlir").losses(full))
    assert find_format("relay-int8").losses(full)[0].endswith("makes its own")
    with pytest.raises(CalibrationError, match="no spaces; rename 'a b'"):
        find_format("ncnn").losses(full)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("tensorrt", "x: 3c8f5c29\n", "first line 'x: 3c8f5c29' found"),
        ("tensorrt", "TRT-1-MinMaxCalibration\nx 3c8f5c29\n", "line 1: 'x 3c8f5c29' has no"),
        ("tensorrt", "TRT-1-MinMaxCalibration\nx: 3c8f5c2g\n", "not the 8 hexadecimal digits"),
        ("tensorrt", "TRT-1-MinMaxCalibration\nx: 3c8f5c\n", "not the 8 hexadecimal digits"),
        ("tensorrt", "TRT-1-MinMaxCalibration\nx: 7fc00000\n", "scale nan"),
        ("tensorrt", "TRT-1-MinMaxCalibration\nx: 7f000000\n", "finite, ascending"),
        ("tensorrt", "TRT-1-MinMaxCalibration\nx: bc8f5c29\n", "scale -0.0175"),
        ("tensorrt", "TRT-1-MinMaxCalibration\nx: 0\nx: 0\n", "line 2: x for the second time"),
        ("ncnn", "conv1 1.0 2.0\n", "2 multipliers for the input of conv1"),
        ("ncnn", "conv1 -1.0\n", "multiplier -1.0"),
        ("ncnn", "c_param_0 0.0\n", "not positive"),
        ("ncnn", "c_param_0 many\n", "c_param_0"),
        ("ncnn", "c_param_0 1e400\n", "c_param_0: a scale of its weights is 0.0"),
        ("tpu-mlir", "x 1.0 2.0\n", "is not: name threshold min max"),
        ("tpu-mlir", "x nan 2.0 3.0\n", "threshold nan"),
        ("tpu-mlir", "x 1.0 -inf 3.0\n", r"range \[-inf, 3.0\]"),
        ("tpu-mlir", "x 1.0 3.0 -3.0\n", "ascending"),
        ("onnxruntime-text", "x -2.0\n", "fault of ONNX Runtime's writer"),
        ("onnxruntime-text", "x\n", "is not: name range"),
        ("onnxruntime", "{", "broken ONNX Runtime ranges"),
        ("onnxruntime", '{"x": {"lowest": 0}}', "KeyError: 'highest'"),
        ("aimet", "{}", "KeyError: 'activation_encodings'"),
        ("aimet", '{"activation_encodings": {"x": []}}', "one encoding of 8 bits"),
        ("ranges", "[]", "JSON object"),
        ("ranges", '{"x": [1, 2, 3]}', "x: 3 numbers found"),
        ("ranges", '{"x": "1", "y": -2}', "x: '1' found.*y: threshold -2"),
        ("ranges", '{"x": {"scale": 0}}', "s positive"),
        ("ranges", '{"x": {"scale": "2"}}', "s positive"),
        ("ranges", '{"x": null, "y": [null, 1]}', "x: None found.*y: .*two numbers are expected"),
        ("ranges", '{"x": [2, 1]}', "ascending"),
        ("ranges", '{"x": 1e39}', "3.4e38"),
        ("relay-int8", "{}", "not a calibration table"),
    ],
)
def test_broken_files(name, text, message):
    with pytest.raises(CalibrationError, match=message):
        find_format(name).read(text)


def test_files_of_other_systems(tmp_path):
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfTRT-8601-EntropyCalibration2\r\nx: 3c8f5c29\r\n")
    exchange, form = read_exchange(tmp_path / "file")
    assert form.name == "tensorrt" and list(exchange.table.entries) == ["x"]


def test_files_of_no_format(tmp_path):
    for content in (b"", b"\xff\xfe", b"hello\n", b'{"layers": [{"name": "x"}]}'):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(CalibrationError, match="file"):
            read_exchange(tmp_path / "file")
    with pytest.raises(ConfigError, match="choose one of relay-int8, tensorrt"):
        find_format("caffe")


def test_names_of_files(tmp_path):
    names = {
        "a.trt": "tensorrt",
        "a.table": "ncnn",
        "resnet_cali_table": "tpu-mlir",
        "calibration.json": "onnxruntime",
        "my.ranges.json": "ranges",
        "a.encodings": "aimet",
        "table.json": "relay-int8",
    }
    assert {name: format_of_name(tmp_path / name).name for name in names} == names
    assert {*names.values(), "onnxruntime-text"} == set(FORMATS)
    with pytest.raises(
        ConfigError, match=r"say which one with convert_table\(target_format='tensorrt'\) or"
    ):
        format_of_name(tmp_path / "calibration.cache")
    with pytest.raises(ConfigError, match="no format has files of that name"):
        format_of_name(tmp_path / "a.txt")


def test_names_that_tensorrt_made_up_are_skipped():
    text = "TRT-8601-EntropyCalibration2\nx: 4000889d\n(Unnamed Layer* 7) [Constant]_output: 3d010a14\n"
    table = find_format("tensorrt").read(text).table
    with pytest.warns(Notice, match=r"has no tensors of are skipped: \(Unnamed Layer"):
        found = fit(table, {"x": "s8"})
    assert list(found.entries) == ["x"] and len(found.notes) == 1
    with pytest.raises(CalibrationError, match=r"ranges are missing for z$"):
        fit(table, {"x": "s8", "z": "s8"})


def test_fit_names_what_does_not_fit():
    table = given_ranges({"x": 1, "y": 2, "typo": 3})
    with pytest.raises(CalibrationError, match=r"missing for z; the model has no tensors typo$"):
        fit(table, {"x": "s8", "z": "u8"}, others=["y"])
    found = fit(given_ranges({"x": 1, "y": 2}), {"x": "s8"}, others=["y"])
    assert list(found.entries) == ["x"] and "1 tensors" in found.notes[0]
    dead = fit(given_ranges({"x": 1, "y": 0, "z": 0}), {"x": "s8", "y": "u8", "z": "asymmetric"})
    assert "exclude them or give a range: y, z" in dead.notes[0]
