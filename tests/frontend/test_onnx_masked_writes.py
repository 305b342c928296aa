"""Writes that a computed mask places, as PyTorch's exporters put images' tokens into a text."""

import numpy as np
import onnx
import pytest
from onnx import helper

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from tests.onnx_models import model, run_onnx, run_relax

node = helper.make_node
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 3, 4)).astype("float32")
MASK = np.array([[1, -1, 1], [-1, -1, 1]], "float32")
ROWS = RNG.normal(size=(4, 4)).astype("float32")
CONSTANTS = {
    "zero": np.zeros((), "float32"), "first": np.array([0]), "last": np.array([-1]),
    "dims": np.array([4]), "whole": np.array([2, 3, 4]), "none": np.zeros((), "int64"),
}  # fmt: skip
IS_TRUE = [
    node("Greater", ["mask", "zero"], ["is_true"]),
    node("Unsqueeze", ["is_true", "last"], ["column"]),
    node("Expand", ["column", "whole"], ["wide"]),
    node("NonZero", ["wide"], ["places"]),
    node("Transpose", ["places"], ["indices"], perm=[1, 0]),
]
OF_ELEMENTS = [
    node("Reshape", ["rows", "last"], ["flat"]),
    node("Shape", ["indices"], ["extents"]),
    node("Gather", ["extents", "none"], ["number"]),
    node("Unsqueeze", ["number", "first"], ["count"]),
    node("Slice", ["flat", "first", "count", "first"], ["updates"]),
]
OF_ROWS = [
    node("Reshape", ["is_true", "last"], ["truths"]),
    node("Cast", ["truths"], ["ones"], to=7),
    node("ReduceSum", ["ones", "first"], ["count"]),
    node("Concat", ["count", "dims"], ["extents"], axis=0),
    node("Expand", ["rows", "extents"], ["expanded"]),
    node("Reshape", ["expanded", "last"], ["updates"]),
]


def writing(updates, rows):
    """Return a model of x, mask and rows that writes rows over x where the mask is positive."""
    nodes = [*IS_TRUE, *updates, node("ScatterND", ["x", "indices", "updates"], ["y"])]
    inputs = {"x": X.shape, "mask": MASK.shape, "rows": rows.shape}
    return model(nodes, inputs, {"y": X.shape}, CONSTANTS)


@pytest.mark.parametrize(
    ("updates", "rows"),
    [(OF_ELEMENTS, ROWS), (OF_ROWS, ROWS[:3]), (OF_ROWS, ROWS[0]), (OF_ROWS, ROWS[:1, :1])],
    ids=["elements", "rows", "one row", "one number"],
)
def test_writes_where_a_mask_is_true(updates, rows):
    proto = writing(updates, rows)
    (found,) = run_relax(import_onnx(proto), X, MASK, rows)
    np.testing.assert_array_equal(found, run_onnx(proto, X, MASK, rows)[0])


PLACES_APART = [
    node("Greater", ["mask", "zero"], ["is_true"]),
    node("NonZero", ["is_true"], ["places"]),
    node("Transpose", ["places"], ["rows_of_places"], perm=[1, 0]),
    node("Split", ["rows_of_places"], ["i", "j"], axis=1, num_outputs=2),
    node("Squeeze", ["i", "last"], ["i_flat"]),
    node("Squeeze", ["j", "last"], ["j_flat"]),
    node("Shape", ["i_flat"], ["count"]),
    node("Expand", ["i_flat", "count"], ["i_wide"]),
    node("Expand", ["j_flat", "count"], ["j_wide"]),
    node("Unsqueeze", ["i_wide", "last"], ["i_column"]),
    node("Unsqueeze", ["j_wide", "last"], ["j_column"]),
    node("Concat", ["count", "dims"], ["extents"], axis=0),
    node("Expand", ["number", "extents"], ["updates"]),
]


def test_a_number_is_written_where_a_mask_is_true():
    """``x[torch.where(mask)] = number`` of OneFormer."""
    indices = node("Concat", ["i_column", "j_column"], ["indices"], axis=-1)
    write = node("ScatterND", ["x", "indices", "updates"], ["y"])
    constants = CONSTANTS | {"number": np.float32(7)}
    inputs = {"x": X.shape, "mask": MASK.shape}
    proto = model([*PLACES_APART, indices, write], inputs, {"y": X.shape}, constants, opset=18)
    (found,) = run_relax(import_onnx(proto), X, MASK)
    np.testing.assert_array_equal(found, run_onnx(proto, X, MASK)[0])


def test_a_network_is_cut_behind_a_write_that_is_read():
    """Its NonZero has no fixed size either, but it goes with the write."""
    proto = writing(OF_ELEMENTS, ROWS)
    proto.graph.node.extend([node("Relu", ["y"], ["r"]), node("Unique", ["r"], ["z"])])
    proto.graph.output.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None))
    with pytest.raises(UnsupportedOpError, match=r"outputs=\['y'\]\)"):
        import_onnx(proto)


def test_updates_of_another_count_are_refused():
    """How many elements are written is known only if the mask itself says it."""
    other = [*OF_ROWS]
    other[0] = node("Reshape", ["mask", "last"], ["truths"])
    with pytest.raises(UnsupportedOpError, match="depends on values of the input"):
        import_onnx(writing(other, ROWS[:3]))


def test_a_constant_without_a_value_is_refused():
    proto = writing(OF_ELEMENTS, ROWS)
    proto.graph.node.insert(0, onnx.NodeProto(op_type="Constant", output=["nothing"]))
    proto.graph.node.append(node("Identity", ["nothing"], ["z"]))
    proto.graph.output.append(helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None))
    with pytest.raises(UnsupportedOpError, match="No constant is defined"):
        import_onnx(proto)
