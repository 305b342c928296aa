"""TFLite operators that compare, combine truth values, and choose by them."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax

from relay_int8.frontend.tflite.step import Converter, TfliteStep
from relay_int8.frontend.tflite.tensors import Result, axis_of
from relay_int8.graph.dataflow import dtype, shape

Operator = Callable[..., relax.Expr]


def _elementwise(op: Operator, operands: int) -> Converter:
    def _convert(step: TfliteStep) -> Result:
        values, wrap = step.together(*range(operands))
        return wrap(op(*values))

    return _convert


def _differ(step: TfliteStep) -> relax.Expr:
    """Return where operands differ; LLVM compares no truth values."""
    (a, b), _ = step.together(0, 1)
    return (relax.op.logical_xor if dtype(a) == "bool" else relax.op.not_equal)(a, b)


def _not_equal(step: TfliteStep) -> Result:
    return step.together(0)[1](_differ(step))


def _equal(step: TfliteStep) -> Result:
    return step.together(0)[1](relax.op.logical_not(step.emit("differ", _differ(step))))


def _select(step: TfliteStep) -> Result:
    """Choose; a condition of one axis is one for each row of longer operands."""
    rows, rank = step.shape(0), len(step.shape(1))
    if len(rows) != 1 or rank < 2:
        return _elementwise(relax.op.where, 3)(step)
    column = step.emit("rows", relax.op.reshape(step.plain(0), (*rows, *(1,) * (rank - 1))))
    return relax.op.where(column, step.plain(1), step.plain(2))


def _some(reduce: Operator) -> Converter:
    """Reduce truth values by their largest, or least, as bytes: TVM reduces no truth values."""

    def _convert(step: TfliteStep) -> Result:
        x = step.plain(0)
        axes = sorted({axis_of(axis, len(shape(x))) for axis in step.integers(1, "axes")})
        whole = step.emit("bytes", relax.op.astype(x, "int8"))
        reduced = reduce(whole, axes, keepdims=bool(step.options["keep_dims"]))
        return relax.op.astype(step.emit("reduced", reduced), "bool")

    return _convert


LOGIC: dict[str, Converter] = {
    "EQUAL": _equal,
    "GREATER": _elementwise(relax.op.greater, 2),
    "GREATER_EQUAL": _elementwise(relax.op.greater_equal, 2),
    "LESS": _elementwise(relax.op.less, 2),
    "LESS_EQUAL": _elementwise(relax.op.less_equal, 2),
    "LOGICAL_AND": _elementwise(relax.op.logical_and, 2),
    "LOGICAL_NOT": _elementwise(relax.op.logical_not, 1),
    "LOGICAL_OR": _elementwise(relax.op.logical_or, 2),
    "NOT_EQUAL": _not_equal,
    "REDUCE_ALL": _some(relax.op.min),
    "REDUCE_ANY": _some(relax.op.max),
    "SELECT": _select,
    "SELECT_V2": _elementwise(relax.op.where, 3),
}
