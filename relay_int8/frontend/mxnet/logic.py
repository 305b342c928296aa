"""MXNet operators that compare and choose; a truth value is 0 or 1 of the operands' type."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_int8.frontend.mxnet.layers import axis_of
from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.frontend.reversing import reversed_sequences
from relay_int8.graph.dataflow import dtype, shape

Binary = Callable[[relax.Expr, relax.Expr], relax.Expr]


def truth(step: MxnetStep, x: relax.Expr) -> relax.Expr:
    """Return what is not zero as true."""
    if dtype(x) == "bool":
        return x
    return step.emit("truth", relax.op.not_equal(x, relax.const(0, dtype(x))))


def _as_numbers(step: MxnetStep, value: relax.Expr) -> relax.Expr:
    return relax.op.astype(step.emit("truth", value), dtype(step.x))


def _compare(op: Binary) -> Converter:
    def _convert(step: MxnetStep) -> relax.Expr:
        a, b = step.operands("lhs", "rhs")
        return _as_numbers(step, op(a, b))

    return _convert


def _compare_scalar(op: Binary) -> Converter:
    def _convert(step: MxnetStep) -> relax.Expr:
        (x,) = step.operands("data")
        return _as_numbers(step, op(x, step.number(step.attributes.real("scalar", 0.0))))

    return _convert


def _combine(op: Binary) -> Converter:
    def _convert(step: MxnetStep) -> relax.Expr:
        a, b = (truth(step, x) for x in step.operands("lhs", "rhs"))
        return _as_numbers(step, op(a, b))

    return _convert


def _not(step: MxnetStep) -> relax.Expr:
    (x,) = step.operands("data")
    return _as_numbers(step, relax.op.logical_not(truth(step, x)))


def _where(step: MxnetStep) -> relax.Expr:
    """Choose; a condition of one axis is one for each row."""
    condition, a, b = step.operands("condition", "x", "y")
    if len(shape(condition)) == 1 and len(shape(a)) > 1:
        rows = (*shape(condition), *(1,) * (len(shape(a)) - 1))
        condition = step.emit("rows", relax.op.reshape(condition, rows))
    return relax.op.where(truth(step, condition), a, b)


def is_within(step: MxnetStep, lengths: relax.Expr, size: int, rank: int, axis: int) -> relax.Expr:
    """Return which places along an axis are before the length of their sequence.

    ``lengths`` has an extent for each other axis in order, the first of them alone or all.
    """
    places = np.arange(size).reshape([size if i == axis else 1 for i in range(rank)])
    others = [extent for extent in shape(lengths)]
    others += [1] * (rank - 1 - len(others))
    column = step.emit("lengths", relax.op.reshape(lengths, [*others[:axis], 1, *others[axis:]]))
    return step.emit(
        "within", relax.op.less(relax.const(places.astype(dtype(lengths)), dtype(lengths)), column)
    )


def _sequence_mask(step: MxnetStep) -> relax.Expr:
    """Write a value behind the end of each sequence; steps are along axis 0 or 1."""
    attrs = step.attributes
    if not attrs.flag("use_sequence_length", False):
        return step.x
    x, lengths = step.operands("data", "sequence_length")
    axis = axis_of(attrs.integer("axis", 0), 2)
    inside = is_within(step, lengths, shape(x)[axis], len(shape(x)), axis)
    return relax.op.where(inside, x, step.number(attrs.real("value", 0.0)))


def _last_step(step: MxnetStep) -> relax.Expr:
    """Return the last step of each sequence."""
    attrs = step.attributes
    axis, dims = axis_of(attrs.integer("axis", 0), 2), shape(step.x)
    if not attrs.flag("use_sequence_length", False):
        last = relax.op.strided_slice(step.x, [axis], [dims[axis] - 1], [dims[axis]])
        return relax.op.squeeze(step.emit("last", last), [axis])
    x, lengths = step.operands("data", "sequence_length")
    steps = np.arange(1, dims[axis] + 1).reshape([-1 if i == axis else 1 for i in range(2)])
    column = step.emit("column", relax.op.expand_dims(lengths, axis))
    kind = dtype(lengths)
    is_last = step.emit("is_last", relax.op.equal(relax.const(steps.astype(kind)), column))
    wide = [*shape(is_last), *(1,) * (len(dims) - 2)]
    chosen = step.emit("chosen", relax.op.reshape(is_last, wide))
    kept = step.emit("kept", relax.op.where(chosen, x, step.number(0.0)))
    return relax.op.sum(kept, [axis])


def _reversed(step: MxnetStep) -> relax.Expr:
    """Turn the steps of each sequence around, along axis 0; what is behind its end stays."""
    if not step.attributes.flag("use_sequence_length", False):
        return relax.op.flip(step.x, 0)
    x, lengths = step.operands("data", "sequence_length")
    return reversed_sequences(step.emit, x, lengths, 0, 1)


_COMPARISONS: dict[str, Binary] = {
    "equal": relax.op.equal,
    "greater": relax.op.greater,
    "greater_equal": relax.op.greater_equal,
    "lesser": relax.op.less,
    "lesser_equal": relax.op.less_equal,
    "not_equal": relax.op.not_equal,
}
_COMBINATIONS: dict[str, Binary] = {
    "logical_and": relax.op.logical_and,
    "logical_or": relax.op.logical_or,
    "logical_xor": relax.op.logical_xor,
}

LOGIC: dict[str, Converter] = {
    **{f"_{name}": _compare(op) for name, op in _COMPARISONS.items()},
    **{f"_{name}_scalar": _compare_scalar(op) for name, op in _COMPARISONS.items()},
    **{f"broadcast_{name}": _compare(op) for name, op in _COMPARISONS.items()},
    **{f"broadcast_{name}": _combine(op) for name, op in _COMBINATIONS.items()},
    "SequenceLast": _last_step,
    "SequenceMask": _sequence_mask,
    "SequenceReverse": _reversed,
    "logical_not": _not,
    "where": _where,
}
