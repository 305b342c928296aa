"""Norms of vectors, of any order."""

from __future__ import annotations

import math

from tvm import relax

from relay_int8.frontend.torch.promotion import as_type
from relay_int8.frontend.torch.step import TorchStep
from relay_int8.graph.dataflow import dtype


def vector_norm(
    step: TorchStep, x: relax.Expr, order: float, axes: list[int], keepdims: bool
) -> relax.Expr:
    """Return ``sum(abs(x) ** order) ** (1 / order)`` along axes, of infinite orders extremes."""
    if order == 2.0:
        squares = step.emit("squares", relax.op.square(x))
        return relax.op.sqrt(step.emit("sum", relax.op.sum(squares, axes, keepdims)))
    sizes = step.emit("sizes", relax.op.abs(x))
    if math.isinf(order):
        return (relax.op.max if order > 0 else relax.op.min)(sizes, axes, keepdims)
    if order == 1.0:
        return relax.op.sum(sizes, axes, keepdims)
    if order == 0.0:
        counted = step.emit("counted", relax.op.not_equal(sizes, relax.const(0.0, dtype(x))))
        return relax.op.sum(as_type(step, counted, dtype(x)), axes, keepdims)
    powers = step.emit("powers", relax.op.power(sizes, relax.const(order, dtype(x))))
    total = step.emit("sum", relax.op.sum(powers, axes, keepdims))
    return relax.op.power(total, relax.const(1 / order, dtype(x)))
