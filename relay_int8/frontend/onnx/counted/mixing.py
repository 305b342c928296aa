"""Operators that read rows together: what rows that are not there hold, so that they do not count.

Before:  y = ReduceMax(x)                        of some first rows of x
After:   y = ReduceMax(where(live, x, -inf))     of all that there is room for
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tvm import relax

from relay_int8.frontend.onnx.counted.carried import LAST, Case, refusal
from relay_int8.frontend.onnx.counted.rows import (
    Counted,
    filled,
    least_of,
    most_of,
    number_of_rows,
)
from relay_int8.frontend.onnx.operators.constant_nodes import attribute
from relay_int8.graph.dataflow import dtype, shape

Filling = Callable[[Case], "tuple[list[relax.Expr], Counted | None] | None"]
"""Returns the operands of a node with such rows filled, and what is counted of its result."""


def _reduced(fill: Callable[[str], float]) -> Filling:
    def _filled(case: Case) -> tuple[list[relax.Expr], Counted | None] | None:
        counted, x = case.only(0), case.inputs[0]
        if counted.axis not in case.reduced():
            return None
        return [filled(case.emit, x, counted, fill(dtype(x))), *case.inputs[1:]], None

    return _filled


def _along(fill: Callable[[str], float], *, stays: bool) -> Filling:
    def _filled(case: Case) -> tuple[list[relax.Expr], Counted | None] | None:
        counted, x = case.only(0), case.inputs[0]
        if counted.axis != case.axis(LAST.get(case.node.op_type, -1)):
            return None
        whole = filled(case.emit, x, counted, fill(dtype(x)))
        return [whole, *case.inputs[1:]], counted if stays else None

    return _filled


def _multiplied(case: Case) -> tuple[list[relax.Expr], Counted | None] | None:
    """Sum products of rows that are there: the rows of both operands are zero else."""
    summed = (case.rank(0) - 1, max(case.rank(1) - 2, 0))
    if [None if c is None else c.axis for c in case.counted] != list(summed):
        return None
    read = [
        filled(case.emit, x, counted, 0.0)
        for x, counted in zip(case.inputs, case.counted, strict=True)
        if counted is not None
    ]
    return read, None


FILLINGS: dict[str, Filling] = {
    "ArgMax": _along(least_of, stays=False),
    "ArgMin": _along(most_of, stays=False),
    "LogSoftmax": _along(least_of, stays=True),
    "MatMul": _multiplied,
    "ReduceMax": _reduced(least_of),
    "ReduceMin": _reduced(most_of),
    "ReduceSum": _reduced(lambda _: 0.0),
    "Softmax": _along(least_of, stays=True),
}


def mean_of_rows(case: Case) -> relax.Expr | None:
    """Return the mean along axes of which one is counted, not bound; None where none is."""
    counted, x, axes = case.only(0), case.inputs[0], case.reduced()
    if counted.axis not in axes:
        return None
    if not dtype(x).startswith("float"):
        raise refusal()
    others = math.prod(_others(shape(x), axes, counted.axis))
    keeps = attribute(case.node, "keepdims") != 0
    whole = filled(case.emit, x, counted, 0.0)
    total = case.emit("total", relax.op.sum(whole, axes, keepdims=keeps))
    rows = case.emit("rows", number_of_rows(case.emit, counted.live))
    rows = case.emit("rows", relax.op.astype(rows, dtype(x)))
    rows = case.emit("rows", relax.op.reshape(rows, (1,) * len(shape(total))))
    count = case.emit("count", relax.op.multiply(rows, relax.const(float(others), dtype(x))))
    return relax.op.divide(total, count)


def _others(dims: Sequence[int], axes: Sequence[int], left_out: int) -> list[int]:
    return [dims[axis] for axis in axes if axis != left_out]
