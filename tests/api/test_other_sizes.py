"""One calibration of a network, for inputs of several sizes."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import relay_int8
from relay_int8.errors import CalibrationError
from relay_int8.notices import Notice
from tests.onnx_models import model

RNG = np.random.default_rng(0)


def network(folder: Path, seed: int = 0) -> Path:
    """Write a network whose images may have any size; a mean knows the size."""
    draw = np.random.default_rng(seed).normal
    weights = {
        "w": (draw(size=(8, 3, 3, 3)) / 5).astype("float32"),
        "v": (draw(size=(8, 4)) / 3).astype("float32"),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "v"], ["y"]),
    ]
    path = folder / f"net{seed}.onnx"
    onnx.save(model(nodes, {"x": [1, 3, "h", "w"]}, {"y": None}, weights), path)
    return path


def sized(path: Path, extent: int) -> relay_int8.Model:
    options = relay_int8.ImportOptions(inputs={"x": (1, 3, extent, extent)})
    return relay_int8.load_model(path, options)


def images(extent: int) -> np.ndarray:
    return RNG.normal(size=(20, 3, extent, extent)).astype("float32")


def test_a_table_serves_inputs_of_other_sizes(tmp_path):
    path = network(tmp_path)
    table = relay_int8.quantize(sized(path, 6), images(6)).table
    small = relay_int8.quantize(sized(path, 6), table)
    with pytest.warns(Notice, match="inputs of other sizes"):
        large = relay_int8.quantize(sized(path, 10), table)
    assert small.table.notes == table.notes
    assert "other sizes" in large.table.notes[-1]
    assert large.table.entries == small.table.entries
    x = images(10)[:1]
    relay_int8.build(large).save(tmp_path / "large.ri8")
    got = relay_int8.load(tmp_path / "large.ri8").run(x)["y"]
    wanted = relay_int8.float_network(sized(path, 10))({"x": x})["y"]
    np.testing.assert_allclose(got, wanted, atol=0.02)


def test_another_network_s_does_not(tmp_path):
    table = relay_int8.quantize(sized(network(tmp_path), 6), images(6)).table
    with pytest.raises(CalibrationError, match="made for model"):
        relay_int8.quantize(sized(network(tmp_path, seed=1), 10), table)
