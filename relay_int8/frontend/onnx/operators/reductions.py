"""Reductions that TVM's importer computes otherwise, or of types that it has no code for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.frontend.onnx.operators.operands import known_array
from relay_int8.graph.dataflow import dtype, shape

AXES_ARE_OPERANDS = 18
"""Opset from which the axes of these reductions are an operand."""
OF_ELEMENTS: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "ReduceL1": relax.op.abs,
    "ReduceL2": relax.op.abs,
    "ReduceLogSum": relax.op.log,
    "ReduceSumSquare": relax.op.square,
}
"""What these make of single elements, where a node reduces no axis; TVM's importer leaves them."""


def extreme(name: str) -> Converter:
    """Reduce by maximum or minimum; booleans as integers, of which TVM has the least and most."""
    return _in_type(name, 11, lambda kind: "uint8" if kind == "bool" else kind)


def reduced_in_reals(name: str) -> Converter:
    """Reduce integers as reals, and cut off fractions of the result."""
    return _in_type(name, 13, lambda kind: kind if kind.startswith("float") else "float32")


def reduced(name: str) -> Converter:
    """Reduce in the type of the input."""
    return _in_type(name, 13, lambda kind: kind)


def _in_type(name: str, oldest: int, type_for: Callable[[str], str]) -> Converter:
    """Reduce in the type that stands for the input's; axes are attributes in version ``oldest``."""

    def _convert(
        bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]
    ) -> relax.Expr:
        version = oldest if "axes" in attributes else AXES_ARE_OPERANDS
        convert = getattr(getattr(onnx_frontend, name), f"_impl_v{version}")
        x, *axes = inputs
        if name in OF_ELEMENTS and _reduces_nothing(axes, attributes):
            return OF_ELEMENTS[name](x)
        kind, other = dtype(x), type_for(dtype(x))
        if kind == other:
            return convert(bb, inputs, attributes, [{}, {}])
        y = bb.emit(convert(bb, [bb.emit(relax.op.astype(x, other)), *axes], attributes, [{}, {}]))
        return relax.op.astype(y, kind)

    return _convert


def _reduces_nothing(axes: list[Any], attributes: dict[str, Any]) -> bool:
    written = axes[0] if axes and axes[0] is not None else None
    named = attributes.get("axes") or (written is not None and shape(written) != (0,))
    return bool(attributes.get("noop_with_empty_axes", 0)) and not named


def cum_sum(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Sum along an axis, from its end where ``reverse`` says so."""
    x, axis_array = inputs[0], known_array(inputs[1], "its axis is")
    axis = int(axis_array.reshape(()))
    turned = bool(attributes.get("reverse", 0))
    x = bb.emit(relax.op.flip(x, axis)) if turned else x
    y = relax.op.cumsum(x, axis, exclusive=bool(attributes.get("exclusive", 0)))
    return relax.op.flip(bb.emit(y), axis) if turned else y
