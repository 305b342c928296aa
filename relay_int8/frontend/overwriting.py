"""Parts of a tensor overwritten by another one: changes in place, and scatters at known positions.

    x[:, 2:5] = value    is    concat(x[:, :2], value, x[:, 5:])

A box of a tensor is written between slices of the rest, or into a pad where the rest is one number;
for other positions a constant says of every element which of both it is.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.graph.dataflow import constant, shape

Array = np.ndarray[Any, Any]
Box = list[tuple[int, int]]
"""First position and end along each axis."""


def overwritten(emit: Emit, x: relax.Expr, positions: Array, value: relax.Expr) -> relax.Expr:
    """Return ``x`` with the elements of ``value`` at positions of the flattened x."""
    if not positions.size:
        return x
    joined = box_overwritten(emit, x, positions, value)
    return _chosen(emit, x, positions, value) if joined is None else joined


def box_overwritten(
    emit: Emit, x: relax.Expr, positions: Array, value: relax.Expr
) -> relax.Expr | None:
    """Return ``x`` with ``value`` in the box that positions are; None if they are none."""
    box = _box(positions, shape(x))
    if box is None:
        return None
    extents = [end - begin for begin, end in box]
    value = value if shape(value) == tuple(extents) else relax.op.reshape(value, extents)
    if extents == list(shape(x)):
        return value
    value = emit("part", value) if isinstance(value, relax.Call) else value
    around = constant(x)
    if around is not None and constant(value) is None and (around == around.flat[0]).all():
        widths = [
            width
            for (begin, end), size in zip(box, shape(x), strict=True)
            for width in (begin, size - end)
        ]
        return relax.op.nn.pad(value, widths, "constant", float(around.flat[0]))
    return _framed(emit, x, box, value)


def _box(positions: Array, dims: tuple[int, ...]) -> Box | None:
    """Return the box of a tensor that positions are, in order; None if they are none."""
    if not positions.size or not dims:
        return None
    corners = zip(
        np.unravel_index(positions.flat[0], dims),
        np.unravel_index(positions.flat[-1], dims),
        strict=True,
    )
    box = [(int(first), int(last) + 1) for first, last in corners]
    kept = tuple(slice(begin, end) for begin, end in box)
    inside = np.arange(math.prod(dims)).reshape(dims)[kept].reshape(-1)
    return box if np.array_equal(inside, positions.reshape(-1)) else None


def _framed(emit: Emit, x: relax.Expr, box: Box, value: relax.Expr) -> relax.Expr:
    """Return ``value`` with what x has around the box, joined axis by axis from the last one."""
    for axis in reversed(range(len(box))):
        (begin, end), size = box[axis], shape(x)[axis]
        if (begin, end) == (0, size):
            continue
        value = emit("part", value) if isinstance(value, relax.Call) else value
        parts = [value]
        if begin > 0:
            parts.insert(0, emit("before", _slice(x, [*box[:axis], (0, begin)])))
        if end < size:
            parts.append(emit("behind", _slice(x, [*box[:axis], (end, size)])))
        value = relax.op.concat(parts, axis)
    return value


def _slice(x: relax.Expr, box: Box) -> relax.Call:
    """Return a box of ``x``, whole along the axes that are left out and those of full extent."""
    axes = [axis for axis, bounds in enumerate(box) if bounds != (0, shape(x)[axis])]
    return relax.op.strided_slice(
        x, axes, [box[axis][0] for axis in axes], [box[axis][1] for axis in axes]
    )


def _chosen(emit: Emit, x: relax.Expr, positions: Array, value: relax.Expr) -> relax.Expr:
    """Read each element of the result from x before value."""
    total = math.prod(shape(x))
    source = np.arange(total)
    source[positions.reshape(-1)] = total + np.arange(positions.size)
    flat = [relax.op.reshape(part, (math.prod(shape(part)),)) for part in (x, value)]
    both = emit("both", relax.op.concat([emit("flat", part) for part in flat], 0))
    merged = relax.const(source.reshape(shape(x)), "int64")
    return emit("overwritten", relax.op.take(both, merged, 0, mode="clip"))
