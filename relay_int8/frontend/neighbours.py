"""Gathers at constant positions that are neighbours, written as slices.

    Before:  y = take(x, [[4, 5], [6, 7]], axis=1)
    After:   y = reshape(strided_slice(x, 4 to 8 along axis 1))

Exporters write parts of a packed tensor and views of the whole memory as gathers; slices are moved
in integers, and read by attention where they lie.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_int8.graph.dataflow import constant, shape

Emit = Callable[[relax.Expr], relax.Expr]


def sliced_neighbours(
    emit: Emit, x: relax.Expr, indices: relax.Expr, axis: int
) -> relax.Expr | None:
    """Return ``take(x, indices, axis)`` as a slice, or None; indices count from zero."""
    positions, dims = constant(indices), shape(x)
    if positions is None:
        return None
    flat = positions.reshape(-1)
    if flat.size and not np.array_equal(flat - flat[0], np.arange(flat.size)):
        return None
    first = int(flat[0]) if flat.size else 0
    if flat.size != dims[axis]:
        x = relax.op.strided_slice(x, [axis], [first], [first + flat.size])
    if positions.ndim == 1:
        return x
    x = emit(x) if isinstance(x, relax.Call) else x
    if not positions.ndim:
        return relax.op.squeeze(x, [axis])
    return relax.op.reshape(x, (*dims[:axis], *positions.shape, *dims[axis + 1 :]))
