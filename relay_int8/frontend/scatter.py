"""Writing one element for each index along an axis; other axes of the indices may be shorter."""

from __future__ import annotations

import numpy as np
from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.graph.dataflow import dtype, shape


def scatter_elements(
    emit: Emit,
    x: relax.Expr,
    indices: relax.Expr,
    updates: relax.Expr,
    axis: int,
    reduction: str = "update",
) -> relax.Expr:
    """Return ``x`` with elements of ``updates``, as many as indices, written over it or added.

    Parameters
    ----------
    emit
        Binds a value on the way under a name.
    x, indices, updates
        As of ONNX's ScatterElements; indices count from zero.
    axis
        What indices count along, from zero on.
    reduction
        "update", "add", "mul", "min" or "max".
    """
    dims, index_dims = shape(x), shape(indices)
    if all(n == m for i, (n, m) in enumerate(zip(dims, index_dims, strict=True)) if i != axis):
        return relax.op.scatter_elements(x, indices, updates, axis, reduction)
    # TVM takes extents other than the axis's from the data: write at whole coordinates instead.
    kind, count = dtype(indices), int(np.prod(index_dims))
    grid = np.indices(index_dims).reshape(len(dims), count).T.astype(kind)
    chosen = np.broadcast_to(np.arange(len(dims)) == axis, grid.shape)
    flat = emit("flat", relax.op.reshape(indices, (count, 1)))
    along = relax.op.where(relax.const(chosen, "bool"), flat, relax.const(grid, kind))
    new = emit("updates", relax.op.reshape(updates, (count,)))
    return relax.op.scatter_nd(x, emit("along", along), new, reduction)
