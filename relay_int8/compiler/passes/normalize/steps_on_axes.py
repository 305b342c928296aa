"""Shared by passes that put axes elsewhere: steps that follow, on the new axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import relax

from relay_int8.graph.dataflow import operator, pad_fill
from relay_int8.numerics.unary import UNARY

ELEMENTWISE = {
    *UNARY,
    *("add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "where"),
    *("equal", "greater", "greater_equal", "less", "less_equal", "astype"),
    *("nn.relu", "clip", "nn.leakyrelu", "nn.prelu"),
}
"""Operators whose result at a position needs only the operands there."""

REDUCTIONS = ("mean", "max", "min", "sum")

AxisOf = Callable[[int], int]
"""Where an axis of the old tensor, counted from either end, lies in the new one."""


def sliced(value: relax.Call, x: relax.Expr, axis_of: AxisOf) -> relax.Expr:
    """Return the slice ``value`` of ``x``."""
    axes, *bounds = ([int(item) for item in arg.fields] for arg in value.args[1:])
    return relax.op.strided_slice(x, [axis_of(axis) for axis in axes], *bounds)


def padded(value: relax.Call, x: relax.Expr, widths: Sequence[int]) -> relax.Expr:
    """Return ``x`` padded as ``value`` says, by ``widths`` before and behind each axis."""
    return relax.op.nn.pad(x, list(widths), str(value.attrs.pad_mode), pad_fill(value))


def paired(value: relax.Call, x: relax.Expr, axis_of: AxisOf) -> relax.Expr:
    """Return a Q or DQ of ``x`` with the parameters of ``value``."""
    make = relax.op.quantize if operator(value) == "quantize" else relax.op.dequantize
    return make(x, *value.args[1:], axis_of(int(value.attrs.axis)), str(value.attrs.out_dtype))
