"""relay-int8 table: convert, show, diff; and a table from elsewhere, used."""

import json

import numpy as np
import pytest

from relay_int8.calibration import CalibrationTable
from relay_int8.calibration.formats import fit, given_ranges, read_exchange
from relay_int8.demo import MODEL
from relay_int8.errors import CalibrationError
from relay_int8.frontend.model import import_model
from relay_int8.frontend.onnx import import_onnx
from relay_int8.frontend.options import ImportOptions
from relay_int8.notices import Notice
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.model_tensors import ModelTensors
from relay_int8.quantization.quantize import quantize

pytestmark = pytest.mark.fast


@pytest.fixture(scope="module")
def tensors():
    return ModelTensors.of(import_model(MODEL, ImportOptions(batch=1)))


@pytest.fixture
def table(tensors, tmp_path):
    rng = np.random.default_rng(0)
    numbers = {name: float(rng.lognormal()) for name in tensors.schemes}
    path = tmp_path / "table.json"
    fit(given_ranges(numbers), tensors.schemes).save(path)
    return path


def scales(path):
    entries = CalibrationTable.load(path).entries
    return {name: item.qparams() for name, item in entries.items()}


def test_tensorrt_and_back(invoke, table, tmp_path):
    code, out, err = invoke("table", "convert", table, tmp_path / "a.trt")
    assert code == 0, err
    assert "table.json (relay-int8) -> " in out and "ranges begin at zero (u8) is left out" in out
    back = tmp_path / "back.json"
    code, out, err = invoke("table", "convert", tmp_path / "a.trt", back, "--model", MODEL)
    assert code == 0, err
    assert "(tensorrt) -> " in out and "lost" not in out
    assert scales(back) == scales(table)
    assert CalibrationTable.load(back).model_hash
    assert "note" not in out
    code, _, err = invoke("table", "convert", back, tmp_path / "b.trt")
    assert (tmp_path / "b.trt").read_bytes() == (tmp_path / "a.trt").read_bytes()
    code, out, _ = invoke("table", "diff", table, back, "--max-relative", 0)
    assert code == 0
    count = len(scales(table))
    assert f"{count} of {count} common thresholds are equal" in out


def test_a_scale_of_zero_is_noted(invoke, tensors, tmp_path):
    zero, *others = tensors.schemes
    lines = [f"{zero}: 00000000", *(f"{name}: 3c8f5c29" for name in others), "logits: 3c8f5c29"]
    (tmp_path / "a.trt").write_text("TRT-8601-EntropyCalibration2\n" + "\n".join(lines) + "\n")
    arguments = (tmp_path / "a.trt", tmp_path / "b.json", "--model", MODEL)
    code, out, err = invoke("table", "convert", *arguments)
    assert code == 0, err
    assert f"exclude them or give a range: {zero}\n" in out
    assert "note: 1 tensors that need no range of their own were dropped" in out


def test_ncnn_and_back(invoke, table, tensors, tmp_path):
    path = tmp_path / "a.table"
    code, out, err = invoke("table", "convert", table, path, "--model", MODEL)
    assert code == 0, err
    assert "lost: multipliers have six decimals" in out and "weights" not in out
    exchange, form = read_exchange(path)
    assert form.name == "ncnn"
    assert len(exchange.table.entries) == len(exchange.weights) == len(tensors.weights)
    inputs = set(tensors.inputs.values())
    limits = {name: item.high for name, item in CalibrationTable.load(table).entries.items()}
    for layer, item in exchange.table.entries.items():
        np.testing.assert_allclose(item.high, limits[tensors.inputs[layer]], rtol=1e-5)
    assert inputs <= set(limits)
    wrong = path.read_text().splitlines()
    wrong[0] = wrong[0].rsplit(" ", 2)[0] + " "
    path.write_text("\n".join(wrong) + "\n")
    code, _, err = invoke("table", "convert", path, tmp_path / "b.json", "--model", MODEL)
    assert code == 1 and "scales, the model" in err


def test_names_of_layers_are_not_taken_for_tensors(invoke, tmp_path):
    ncnn = tmp_path / "a.table"
    ncnn.write_text("conv1_param_0 2.000000 \nconv1 0.500000 \n")
    mine = tmp_path / "mine.ranges.json"
    mine.write_text('{"conv1": 254}')
    for arguments in ((ncnn, tmp_path / "b.json"), (mine, tmp_path / "b.table")):
        code, _, err = invoke("table", "convert", *arguments)
        assert (
            code == 1
            and "a table of ncnn lists layers" in " ".join(err.split())
            and "--model" in err
        )
        assert not arguments[1].exists()
    code, _, err = invoke(
        "quantize", MODEL, "--batch", 1, "--table", ncnn, "-o", tmp_path / "a.ri8"
    )
    assert code == 1 and f"relay-int8 table convert {ncnn}" in err
    code, out, _ = invoke("table", "diff", ncnn, mine)
    assert code == 0 and "ncnn's names are layers" in out


def test_a_table_that_misses_tensors_names_them(invoke, tmp_path):
    (tmp_path / "mine.ranges.json").write_text(json.dumps({"typo": 1.0}))
    arguments = (tmp_path / "mine.ranges.json", tmp_path / "b.json", "--model", MODEL)
    code, _, err = invoke("table", "convert", *arguments)
    assert code == 1 and not (tmp_path / "b.json").exists()
    assert "ranges are missing for" in err and "the model has no tensors typo" in err


def test_numbers_of_your_own_quantize_the_network(tensors):
    numbers = dict.fromkeys(tensors.schemes, 2.0)
    mod = import_onnx(MODEL, batch=1)
    table = given_ranges(numbers)
    found = quantize(mod, table, QuantConfig(bias_correction=False))
    assert found.table.entries[next(iter(numbers))].high == 2
    with pytest.warns(Notice, match="no means of channels.* biases stay as they are"):
        same = quantize(mod, table)
    assert same.digest == found.digest and not same.config.bias_correction
    assert same.settings["method"] == "of the given table (ranges)"
    with pytest.raises(CalibrationError, match="the model has no tensors typo"):
        quantize(mod, given_ranges({**numbers, "typo": 1}))


def test_show(invoke, tmp_path):
    path = tmp_path / "cache"
    path.write_text("TRT-7103-EntropyCalibration2\nx:0 [a]: 4000889d\n")
    code, out, _ = invoke("table", "show", path)
    assert code == 0
    for part in ("(tensorrt)", "x:0 [a]", "s8", "255.05", "2.00833", "TRT-7103-Entropy"):
        assert part in out, part
    code, out, _ = invoke("table", "show", path, "--json")
    tensor = json.loads(out)["tensors"]["x:0 [a]"]
    assert (
        code == 0 and tensor["type"] == "s8" and tensor["scale"] == pytest.approx(2.00833, rel=1e-5)
    )
    (tmp_path / "my_qtable").write_text("# op_name quantize_mode\nconv1 F16\n")
    code, out, _ = invoke("table", "show", tmp_path / "my_qtable")
    assert code == 0 and "--exclude 'conv1'" in out
    code, out, _ = invoke("table", "show", tmp_path / "my_qtable", "--json")
    assert code == 0 and json.loads(out) == {"conv1": "F16"}


def test_diff_and_errors(invoke, tmp_path):
    for name, numbers in (("a", {"x": 1, "y": 2, "p": 1}), ("b", {"x": 1, "y": 1, "q": 1})):
        (tmp_path / f"{name}.ranges.json").write_text(json.dumps(numbers))
    files = [tmp_path / "a.ranges.json", tmp_path / "b.ranges.json"]
    code, out, _ = invoke("table", "diff", *files)
    assert code == 0
    assert "1 of 2 common thresholds are equal" in out and "50.000%" in out
    assert "a.ranges.json: p" in out and "b.ranges.json: q" in out
    code, _, err = invoke("table", "diff", *files, "--max-relative", "0.1")
    assert code == 3 and "50.000%" in err
    code, out, err = invoke("table", "diff", *files, "--max-relative", "0.1", "--json")
    assert code == 3 and json.loads(out)["differences"] == {"y": 0.5, "x": 0.0}
    assert json.loads(out)["only_in"] == {str(files[0]): ["p"], str(files[1]): ["q"]}
    code, _, err = invoke("table", "convert", files[0], tmp_path / "c.txt")
    assert code == 1 and "no format has files of that name" in err
    for name in ("none", "none_qtable"):
        code, _, err = invoke("table", "show", tmp_path / name)
        assert code == 1 and "cannot be read" in err
    code, _, err = invoke("table", "convert", files[0], tmp_path / "absent" / "c.trt")
    assert code == 1 and "there is no folder" in err
    code, _, err = invoke("table", "convert", files[0], tmp_path, "--to", "tensorrt")
    assert code == 1 and str(tmp_path) in err


def test_a_long_table_has_the_columns_of_a_short_one(invoke, tmp_path):
    values = {f"tensor {number}": 1 + number / 7 for number in range(2001)}
    (tmp_path / "long.json").write_text(json.dumps(values))
    (tmp_path / "short.json").write_text(json.dumps(dict([*values.items()][:2000])))
    lines = [
        [line.rstrip() for line in invoke("table", "show", tmp_path / name)[1].splitlines()]
        for name in ("long.json", "short.json")
    ]
    assert len(lines[0]) == 2003
    assert lines[0][1:2002] == lines[1][1:]


def test_words_in_place_of_numbers(invoke, tmp_path):
    (tmp_path / "x.table").write_text("conv_1 abc\n")
    code, _, err = invoke("table", "show", tmp_path / "x.table", "--form", "ncnn")
    assert code == 1 and "line 1: 'abc' is no number" in err
    code, _, err = invoke("table", "diff", "a", "b", "--max-relative", -1)
    assert code == 2 and "greater than or equal to 0" in " ".join(err.split())
