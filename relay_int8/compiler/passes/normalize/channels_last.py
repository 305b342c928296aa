"""Shared by CanonicalizeChannels: steps of images with channels last, as those of channels first.

A step is known if the permutation of its result needs only those of its operands: arithmetic
element by element, joins, slices, pads, reductions, softmax, Q/DQ with one scale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tvm import relax

from relay_int8.compiler.passes.normalize.steps_on_axes import (
    ELEMENTWISE,
    REDUCTIONS,
    padded,
    paired,
    sliced,
)
from relay_int8.graph.dataflow import constant, operator, shape, with_arguments

RANK = 4
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)
"""Orders of axes that put the channels of an image last, and back. ``FIRST[i]`` is where axis i of
an image with channels first lies in one with channels last, ``LAST[i]`` the other way round."""
SAME_PLACE = ELEMENTWISE - {"nn.prelu"}  # its slopes are along an axis
SEARCHES = ("argmax", "argmin")


def is_turn(value: relax.Expr, order: Sequence[int]) -> bool:
    """Whether ``value`` is a permutation of axes, and that one."""
    axes = value.attrs.axes if operator(value) == "permute_dims" else None
    return axes is not None and tuple(map(int, axes)) == tuple(order)


def is_vector(value: relax.Expr) -> bool:
    """Whether a tensor is an image of one pixel: of it any permutation is a reshape."""
    dims = _dims(value)
    return len(dims) == RANK and all(isinstance(n, int) and n == 1 for n in dims[1:3])


def tensors(value: relax.Expr) -> list[relax.Expr]:
    """Return the operands that a step permutes with its result."""
    if not isinstance(value, relax.Call) or not value.args:
        return []
    if operator(value) == "concat":
        return list(value.args[0].fields) if isinstance(value.args[0], relax.Tuple) else []
    return list(value.args) if operator(value) in SAME_PLACE else list(value.args[:1])


def keeps_rank(value: relax.Expr) -> bool:
    """Whether a step gives an image, not what its reduction leaves of one."""
    return len(_dims(value)) == RANK


def is_step(value: relax.Expr) -> bool:
    """Whether there is such a step of images with channels first."""
    op = operator(value)
    if op in SAME_PLACE or op == "concat":
        return keeps_rank(value)
    if op in (*REDUCTIONS, *SEARCHES):
        return value.attrs.keepdims or _keeps_order(value)
    if op in ("quantize", "dequantize"):
        arrays = [constant(parameter) for parameter in value.args[1:]]
        return keeps_rank(value) and all(a is not None and a.size == 1 for a in arrays)
    return op in _STEPS and keeps_rank(value)


def turned_step(value: relax.Call, operands: list[relax.Expr]) -> relax.Expr:
    """Return a step of images with channels first; ``operands`` replace its :func:`tensors`."""
    op = operator(value)
    if op == "concat":
        return relax.op.concat(operands, _axis(int(value.attrs.axis or 0)))
    if op in SAME_PLACE:
        return with_arguments(value, operands)
    return _STEPS[op](value, operands[0])


def turned_constant(array: np.ndarray) -> relax.Constant:
    """Return a constant operand as it meets an image with channels first."""
    if not array.ndim:
        return relax.const(array, str(array.dtype))
    image = array.reshape((1,) * (RANK - array.ndim) + array.shape)
    return relax.const(np.ascontiguousarray(image.transpose(FIRST)), str(array.dtype))


def _dims(value: relax.Expr) -> tuple[int, ...]:
    return shape(value) if isinstance(value.ty, relax.TensorType) else ()


def _axis(axis: int) -> int:
    """Return where an axis of an image with channels last lies in one with channels first."""
    return LAST[axis % RANK]


def _reduced(value: relax.Call) -> list[int]:
    axes = range(RANK) if value.attrs.axis is None else np.atleast_1d(value.attrs.axis)
    return sorted(_axis(int(axis)) for axis in axes)


def _keeps_order(value: relax.Call) -> bool:
    """Whether the axes that a reduction leaves are in the same order in both images."""
    gone = _reduced(value)
    left = [axis for axis in LAST if axis not in gone]
    return left == sorted(left)


def _reduce(value: relax.Call, x: relax.Expr) -> relax.Expr:
    return getattr(relax.op, operator(value))(x, _reduced(value), value.attrs.keepdims)


def _search(value: relax.Call, x: relax.Expr) -> relax.Expr:
    (axis,) = _reduced(value)
    return getattr(relax.op, operator(value))(x, axis, value.attrs.keepdims)


def _pad(value: relax.Call, x: relax.Expr) -> relax.Expr:
    widths = [int(width) for width in value.attrs.pad_width]
    return padded(value, x, [widths[2 * axis + side] for axis in FIRST for side in (0, 1)])


def _slice(value: relax.Call, x: relax.Expr) -> relax.Expr:
    return sliced(value, x, _axis)


def _softmax(value: relax.Call, x: relax.Expr) -> relax.Expr:
    make = relax.op.nn.softmax if operator(value) == "nn.softmax" else relax.op.nn.log_softmax
    return make(x, _axis(int(value.attrs.axis)))


def _pair(value: relax.Call, x: relax.Expr) -> relax.Expr:
    return paired(value, x, _axis)


_STEPS: dict[str, Callable[[relax.Call, relax.Expr], relax.Expr]] = {
    "dequantize": _pair,
    "nn.log_softmax": _softmax,
    "nn.pad": _pad,
    "nn.softmax": _softmax,
    "quantize": _pair,
    "strided_slice": _slice,
    **dict.fromkeys(REDUCTIONS, _reduce),
    **dict.fromkeys(SEARCHES, _search),
}
