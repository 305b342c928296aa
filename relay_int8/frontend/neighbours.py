"""Gathers at constant positions that are neighbours, written as slices.

    Before:  y = take(x, [[4, 5], [6, 7]], axis=1)
    After:   y = reshape(strided_slice(x, 4 to 8 along axis 1))

    Before:  y = take(x, [2, 3, 4, 0, 1], axis=1)
    After:   y = concat(strided_slice(x, 2 to 5), strided_slice(x, 0 to 2))

Exporters write parts of a packed tensor, views of the whole memory and rolls as gathers; slices are
moved in integers, and read by attention where they lie.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_int8.graph.dataflow import constant, shape

Emit = Callable[[relax.Expr], relax.Expr]
MOST_RUNS = 2  # of neighbours: what is rolled along an axis has two


def sliced_neighbours(
    emit: Emit, x: relax.Expr, indices: relax.Expr, axis: int
) -> relax.Expr | None:
    """Return ``take(x, indices, axis)`` as a slice, or None; indices count from zero."""
    positions, dims = constant(indices), shape(x)
    if positions is None:
        return None
    flat = positions.reshape(-1)
    ends = [*(np.flatnonzero(np.diff(flat) != 1) + 1), flat.size]
    if len(ends) > MOST_RUNS:
        return None
    runs = [flat[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    if flat.size != dims[axis] or len(runs) > 1:
        parts = [_run(x, axis, run) for run in runs]
        x = parts[0] if len(parts) == 1 else relax.op.concat([emit(part) for part in parts], axis)
    if positions.ndim == 1:
        return x
    x = emit(x) if isinstance(x, relax.Call) else x
    if not positions.ndim:
        return relax.op.squeeze(x, [axis])
    return relax.op.reshape(x, (*dims[:axis], *positions.shape, *dims[axis + 1 :]))


def _run(x: relax.Expr, axis: int, run: np.ndarray) -> relax.Call:
    first = int(run[0]) if run.size else 0
    return relax.op.strided_slice(x, [axis], [first], [first + run.size])
