"""ONNX nodes of constants, computed as the file is read."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from relay_int8.frontend.onnx.indices import gathered_elements

# Operators that move values or make them of shapes: no rounding, whatever the type.
MOVES = {
    "Cast",
    "Concat",
    "ConstantOfShape",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "Range",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
}

MAX_ELEMENTS = 1 << 24
"""Of a constant that the graph computes; weights are in the file and have no such bound."""


def evaluate(node: onnx.NodeProto, arrays: list[np.ndarray | None], opset: int) -> list[np.ndarray]:
    """Compute one node with ONNX's reference implementation."""
    if (count := _elements(node.op_type, arrays)) > MAX_ELEMENTS:
        raise ValueError(f"it makes a constant of {count} elements; {MAX_ELEMENTS} are the most")
    if node.op_type == "GatherElements" and arrays[0] is not None and arrays[1] is not None:
        return [gathered_elements(arrays[0], arrays[1], attribute(node, "axis") or 0)]
    given = {n: a for n, a in zip(node.input, arrays, strict=True) if a is not None}
    graph = onnx.helper.make_graph(
        [node],
        "constant",
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in given.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in node.output],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    return [np.asarray(array) for array in ReferenceEvaluator(model).run(None, given)]


def _elements(op_type: str, arrays: list[np.ndarray | None]) -> int:
    """Return how many elements an operator makes that can make more than it reads."""
    given = [np.zeros(0) if array is None else array for array in arrays]
    if op_type == "ConstantOfShape":
        return math.prod(int(extent) for extent in given[0].reshape(-1))
    if op_type == "Tile":
        return given[0].size * math.prod(int(count) for count in given[1].reshape(-1))
    if op_type == "Expand":
        target = [int(extent) for extent in given[1].reshape(-1)]
        return math.prod(np.broadcast_shapes(given[0].shape, target))
    if op_type == "Range":
        start, limit, delta = (float(array.reshape(-1)[0]) for array in given)
        return math.ceil((limit - start) / delta)
    return 0


def attribute(node: onnx.NodeProto, name: str) -> int | None:
    """Return an attribute that is an integer, or None where the node has none of the name."""
    return next((int(a.i) for a in node.attribute if a.name == name), None)
