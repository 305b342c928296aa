"""Compute calls on constants with NumPy while a file is read.

Masks and positions are written as a dozen operators on numbers alone; what they come to is needed
to read the operators behind them. Weights are left alone: FoldConstants computes with those, in
double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.graph.dataflow import arguments, constant, dtype, operator, shape, slice_steps

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]

MOST_ELEMENTS = 1 << 22  # elements, a mask of 2048 x 2048; more come from a damaged file

ELEMENTWISE: dict[str, Function] = {
    "abs": np.abs,
    "add": np.add,
    "bitwise_and": np.bitwise_and,
    "bitwise_not": np.bitwise_not,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "ceil": np.ceil,
    "cos": np.cos,
    "divide": np.divide,
    "equal": np.equal,
    "exp": np.exp,
    "floor": np.floor,
    "floor_divide": np.floor_divide,
    "floor_mod": np.mod,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "less": np.less,
    "less_equal": np.less_equal,
    "log": np.log,
    "logical_and": np.logical_and,
    "logical_not": np.logical_not,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mod": np.fmod,
    "multiply": np.multiply,
    "negative": np.negative,
    "not_equal": np.not_equal,
    "power": np.power,
    "round": np.rint,
    "sign": np.sign,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "square": np.square,
    "subtract": np.subtract,
    "trunc": np.trunc,
    "where": np.where,
}
REDUCTIONS: dict[str, Function] = {
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "sum": np.sum,
}


def _clipped(call: relax.Call, x: Array) -> Array:
    low, high = (bound.value for bound in call.args[1:])
    return np.clip(x, x.dtype.type(low), x.dtype.type(high))


RESHAPES = ("reshape", "expand_dims", "squeeze")


def _sliced(call: relax.Call, x: Array) -> Array:
    begins, steps = slice_steps(call)
    kept = [
        slice(begin, begin + step * (size - 1) + 1, step)
        for begin, step, size in zip(begins, steps, shape(call), strict=True)
    ]
    return x[tuple(kept)]


def _gathered(call: relax.Call, x: Array, indices: Array) -> Array:
    """Gather along an axis; other axes may be longer in x than in the indices."""
    axis = int(call.attrs.axis) % x.ndim
    kept = [slice(None if i == axis else size) for i, size in enumerate(indices.shape)]
    return np.take_along_axis(x[tuple(kept)], indices, axis)


def _summed(call: relax.Call, x: Array) -> Array:
    """Sum up along an axis; ``exclusive`` leaves out the element itself."""
    total = np.cumsum(x, int(call.attrs.axis))
    return total - x if call.attrs.exclusive else total


MOVES: dict[str, Function] = {
    "astype": lambda call, x: x.astype(dtype(call)),
    "broadcast_to": lambda call, x: np.broadcast_to(x, shape(call)),
    "clip": _clipped,
    "concat": lambda call, *parts: np.concatenate(parts, int(call.attrs.axis or 0)),
    "cumsum": _summed,
    "flip": lambda call, x: np.flip(x, int(call.attrs.axis)),
    "gather_elements": _gathered,
    "permute_dims": lambda call, x: x.transpose([int(axis) for axis in call.attrs.axes]),
    "strided_slice": _sliced,
    "take": lambda call, x, indices: np.take(x, indices, int(call.attrs.axis), mode="clip"),
    "tile": lambda call, x: np.tile(x, [int(count) for count in call.attrs.repeats]),
}


def folded(value: relax.Expr, weights: Collection[relax.Expr] = ()) -> relax.Expr | None:
    """Return a call's result as a constant; None where it reads a tensor or one of ``weights``.

    What is computed of a tensor without elements has none either, and so is known.
    """
    if not isinstance(value, relax.Call):
        return None
    op = operator(value)
    operands = [a for a in arguments(value) if isinstance(a.ty, relax.TensorType)]
    arrays = [constant(a) for a in operands]
    known = op in ELEMENTWISE or op in REDUCTIONS or op in RESHAPES or op in MOVES
    if known and any(0 in shape(operand) for operand in operands):
        empty = relax.BlockBuilder().normalize(value)
        if 0 in shape(empty):
            return relax.const(np.zeros(shape(empty), dtype(empty)), dtype(empty))
    if not arrays or not known or any(a is None for a in arrays):
        return None
    if any(operand in weights and 0 not in shape(operand) for operand in operands):
        return None
    call = relax.BlockBuilder().normalize(value)
    if np.prod(shape(call), dtype=object) > MOST_ELEMENTS:
        return None
    with np.errstate(all="ignore"):  # infinities are what masks are made of
        array = np.asarray(_compute(op, call, arrays))
    kind = dtype(call)
    return relax.const(np.ascontiguousarray(array, kind).reshape(shape(call)), kind)


def _compute(op: str, call: relax.Call, arrays: list[Any]) -> Array:
    if op in ELEMENTWISE:
        return np.asarray(ELEMENTWISE[op](*arrays))
    if op in REDUCTIONS:
        axes = None if call.attrs.axis is None else tuple(int(axis) for axis in call.attrs.axis)
        return np.asarray(REDUCTIONS[op](arrays[0], axis=axes, keepdims=call.attrs.keepdims))
    if op in RESHAPES:
        return np.asarray(arrays[0].reshape(shape(call)))
    return np.asarray(MOVES[op](call, *arrays))
