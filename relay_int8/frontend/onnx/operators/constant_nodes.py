"""ONNX nodes of constants, computed as the file is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from relay_int8.frontend.onnx.operators.indices import gathered_elements

Array = np.ndarray[Any, np.dtype[Any]]

# Operators that move values, find them or make them of shapes: no rounding, whatever the type.
MOVES = {
    "Cast",
    "Concat",
    "ConstantOfShape",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "NonZero",
    "OneHot",
    "Range",
    "Reshape",
    "Slice",
    "Split",
    "Squeeze",
    "Tile",
    "Transpose",
    "Trilu",
    "Unsqueeze",
}

SCALES = {
    "Abs",
    "Add",
    "Ceil",
    "Clip",
    "Div",
    "Floor",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Neg",
    "Pow",
    "Reciprocal",
    "ReduceMax",
    "ReduceMin",
    "Round",
    "Sqrt",
    "Sub",
    "Where",
}
"""Arithmetic by which exporters scale sizes, and widths of padding from them."""
COMPARISONS = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}
"""What they choose a branch or a size by."""
MOST_EXTENTS = 8
"""Elements of what may be a shape, scaled by an exporter that wrote its numbers into the file."""

INTEGERS = {
    onnx.helper.np_dtype_to_tensor_dtype(np.dtype(f"{sign}int{bits}"))
    for sign in ("", "u")
    for bits in (8, 16, 32, 64)
}
"""As a file numbers their types."""
MAX_ELEMENTS = 1 << 24
"""Of a constant that the graph computes; weights are in the file and have no such bound."""


class ScaledExtents:
    """What becomes of the numbers of a shape that an exporter has written into a file as floats.

    FoldConstants computes floats in double precision, later; sizes are needed as the file is read.
    """

    def __init__(self, opset: int) -> None:
        self._opset = opset
        self._floats: dict[str, Array] = {}

    def integers(self, node: onnx.NodeProto, arrays: Sequence[Array | None]) -> Array | None:
        """Return what ``node`` makes integers or truths of, or None; keep the floats before them.

        Parameters
        ----------
        node
            Nodes in their order.
        arrays
            Its operands where they are constants already.
        """
        for name in node.output:
            self._floats.pop(name, None)  # of an earlier run of a loop
        if node.op_type not in MOVES | SCALES | COMPARISONS or len(node.output) != 1:
            return None
        pairs = zip(node.input, arrays, strict=True)
        known = [self._floats.get(name) if array is None else array for name, array in pairs]
        computed = [name for name, array in zip(node.input, known, strict=True) if array is None]
        if any(computed) or any(a is not None and a.size > MOST_EXTENTS for a in known):
            return None  # an operand that is left out has no name
        was_scaled = any(name in self._floats for name in node.input)
        if node.op_type == "Cast" and attribute(node, "to") in (*INTEGERS, onnx.TensorProto.BOOL):
            return evaluate(node, known, self._opset)[0] if was_scaled else None
        of_floats = any(array is not None and array.dtype.kind == "f" for array in known)
        if node.op_type in COMPARISONS:
            return evaluate(node, known, self._opset)[0] if of_floats else None
        if was_scaled or (node.op_type in SCALES and of_floats):
            self._floats[node.output[0]] = evaluate(node, known, self._opset)[0]
        return None


def evaluate(node: onnx.NodeProto, arrays: list[Array | None], opset: int) -> list[Array]:
    """Compute one node with ONNX's reference implementation."""
    if (count := _elements(node.op_type, arrays)) > MAX_ELEMENTS:
        raise ValueError(f"it makes a constant of {count} elements; {MAX_ELEMENTS} are the most")
    if node.op_type == "GatherElements" and arrays[0] is not None and arrays[1] is not None:
        return [gathered_elements(arrays[0], arrays[1], attribute(node, "axis") or 0)]
    if node.op_type == "OneHot":  # whose depth may be a vector of one; ONNX's takes scalars alone
        arrays = [arrays[0], arrays[1] if arrays[1] is None else arrays[1].reshape(()), arrays[2]]
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
