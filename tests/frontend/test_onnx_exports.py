"""What PyTorch's exporters write: slices to the end, shapes computed in the graph, odd operators."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph import results, shape
from tests.onnx_models import assert_close, model, run_onnx, run_relax

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1, 3, 9, 8)).astype("float32")
END = np.iinfo("int64").max
node = helper.make_node


def constant_node(name: str, values: object, dtype: str = "int64") -> onnx.NodeProto:
    """Write a constant as PyTorch does: a node, not an initializer."""
    return node("Constant", [], [name], value=numpy_helper.from_array(np.array(values, dtype)))


def assert_same(proto: onnx.ModelProto, *arrays: np.ndarray) -> None:
    """Compare what is imported with ONNX Runtime."""
    assert_close(run_relax(import_onnx(proto), *arrays), run_onnx(proto, *arrays))


@pytest.mark.parametrize(("start", "step"), [(1, 1), (1, 2), (0, 2), (-3, 1)])
def test_slice_to_the_end(start: int, step: int):
    """The end is INT64_MAX, which must not become -1 on the way."""
    bounds = {"s": [start], "e": [END], "a": [2], "t": [step]}
    constants = [constant_node(name, value) for name, value in bounds.items()]
    nodes = [*constants, node("Slice", ["x", *bounds], ["y"])]
    assert_same(model(nodes, {"x": X.shape}, {"y": None}), X)


def test_widths_of_a_pad_that_are_turned_around():
    """PyTorch's pads list the last axis first; the exporter reverses them in the graph."""
    nodes = [
        constant_node("pads", [2, 1, 3, 2, 0, 0, 0, 0]),
        constant_node("pairs", [-1, 2]),
        *(constant_node(name, [v]) for name, v in (("s", -1), ("e", -END), ("a", 0), ("t", -1))),
        constant_node("flat", [-1]),
        node("Reshape", ["pads", "pairs"], ["p"]),
        node("Slice", ["p", "s", "e", "a", "t"], ["reversed"]),
        node("Transpose", ["reversed"], ["rows"], perm=[1, 0]),
        node("Reshape", ["rows", "flat"], ["widths"]),
        node("Pad", ["x", "widths"], ["y"], mode="reflect"),
    ]
    proto = model(nodes, {"x": X.shape}, {"y": None})
    assert shape(results(import_onnx(proto)["main"])[0]) == (1, 3, 14, 11)
    assert_same(proto, X)
