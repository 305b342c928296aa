"""MXNet operators that give a tensor another shape and leave its elements in order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm import relax

from relay_int8.frontend.mxnet.layers import axis_of
from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.graph.dataflow import shape

COPY, INFER, REST, MERGE, SPLIT = 0, -1, -2, -3, -4
"""What numbers below one mean in ``Reshape``: copy an extent, infer one, copy all that are left,
merge two, split one into the next two numbers."""


def _reshape(step: MxnetStep) -> relax.Expr:
    """Reshape by a list with MXNet's special numbers, from the right if ``reverse``."""
    attrs, dims = step.attributes, shape(step.x)
    target = [value if value is not None else COPY for value in attrs.integers("shape")]
    if not target:
        target = [value or INFER for value in attrs.integers("target_shape")]
        if attrs.flag("keep_highest", False) and target:
            target[0] = COPY
    if not target:
        raise ValueError("it has no shape")
    if attrs.flag("reverse", False):
        return relax.op.reshape(step.x, reshaped(dims[::-1], target[::-1])[::-1])
    return relax.op.reshape(step.x, reshaped(dims, target))


def reshaped(dims: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that MXNet's special numbers ask for.

    Raises
    ------
    ValueError
        If they do not fit ``dims``.
    """
    fault = ValueError(f"a reshape of {list(dims)} to {list(target)}")
    left, numbers, extents = list(dims), list(target), list[int]()
    while numbers:
        number = numbers.pop(0)
        taken = {MERGE: 2, REST: len(left)}.get(number, 1)
        if number < SPLIT or (number < 1 and number != INFER and taken > len(left)):
            raise fault
        source, left = left[:taken], left[taken:]
        if number == SPLIT:
            extents += _split(source[0], numbers[:2], fault)
            del numbers[:2]
        else:
            extents += {COPY: source, REST: source, MERGE: [math.prod(source)]}.get(
                number, [number]
            )
    if extents.count(INFER) == 1:
        known = math.prod(extent for extent in extents if extent != INFER)
        extents[extents.index(INFER)] = math.prod(dims) // known
    if INFER in extents or math.prod(extents) != math.prod(dims):
        raise fault
    return tuple(extents)


def _split(extent: int, parts: Sequence[int], fault: ValueError) -> list[int]:
    """Return the two factors of an extent, of which one may be left open."""
    if len(parts) != 2 or max(parts) < 1 or min(parts) == COPY or min(parts) < INFER:
        raise fault
    a, b = parts
    factors = [extent // b if a == INFER else a, extent // a if b == INFER else b]
    if math.prod(factors) != extent:
        raise fault
    return factors


def _flatten(step: MxnetStep) -> relax.Expr:
    batch, *rest = shape(step.x)
    return relax.op.reshape(step.x, (batch, math.prod(rest)))


def _reshape_like(step: MxnetStep) -> relax.Expr:
    """Take extents of another tensor: all, or those between two places in place of one's own."""
    x, like = step.operands("lhs", "rhs")
    dims, others = shape(x), shape(like)
    own, wanted = (
        slice(
            *(
                step.attributes.integer(f"{side}_{end}", default)
                for end, default in (("begin", 0), ("end", len(extents)))
            )
        ).indices(len(extents))[:2]
        for side, extents in (("lhs", dims), ("rhs", others))
    )
    target = (*dims[: own[0]], *others[slice(*wanted)], *dims[own[1] :])
    if math.prod(target) != math.prod(dims):
        raise ValueError(f"a reshape of {list(dims)} to {list(target)}")
    return relax.op.reshape(x, target)


def _shape_array(step: MxnetStep) -> relax.Expr:
    return relax.const(np.array(shape(step.x), "int64"), "int64")


def _expand_dims(step: MxnetStep) -> relax.Expr:
    axis = axis_of(step.attributes.integer("axis"), len(shape(step.x)) + 1)
    return relax.op.expand_dims(step.x, axis)


def _squeeze(step: MxnetStep) -> relax.Expr:
    dims = shape(step.x)
    axes = [axis_of(axis or 0, len(dims)) for axis in step.attributes.integers("axis")]
    if any(dims[axis] != 1 for axis in axes):
        raise ValueError(f"its axes {axes} are not all of extent 1 in {list(dims)}")
    return relax.op.squeeze(step.x, axes or None)


RESHAPES: dict[str, Converter] = {
    "Flatten": _flatten,
    "Reshape": _reshape,
    "expand_dims": _expand_dims,
    "flatten": _flatten,
    "reshape": _reshape,
    "reshape_like": _reshape_like,
    "shape_array": _shape_array,
    "squeeze": _squeeze,
}
