"""PyTorch operators that read, write or cut along diagonals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.indexing import taken
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import shape


def _diagonal(step: TorchStep) -> Result:
    """Return a diagonal of two axes along a new last axis."""
    first, second = step.axis("dim1", 0), step.axis("dim2", 1)
    offset, dims = step.integer("offset", 0), shape(step.x)
    rest = [axis for axis in range(step.rank) if axis not in (first, second)]
    places = np.diagonal(np.arange(dims[first] * dims[second]).reshape(dims[first], -1), offset)
    if first == second or not places.size:
        raise ValueError(f"diagonal {offset} of axes {first} and {second} of {dims}")
    turned = step.emit("turned", relax.op.permute_dims(step.x, [*rest, first, second]))
    merged = (*[dims[axis] for axis in rest], dims[first] * dims[second])
    flat = step.emit("flat", relax.op.reshape(turned, merged))
    return taken(step, flat, relax.const(places, "int64"), len(rest))


def _on_diagonal(step: TorchStep) -> Result:
    """Write the last axis on a diagonal of two new axes; the rest is zero."""
    offset, rank = step.integer("offset", 0), step.rank + 1
    first, second = step.axis("dim1", -2, rank), step.axis("dim2", -1, rank)
    if first == second:
        raise ValueError(f"a diagonal of axis {first} twice")
    count = shape(step.x)[-1]
    size = count + abs(offset)
    columns = np.clip(np.arange(size) - max(offset, 0), 0, count - 1)
    rows = taken(step, step.x, relax.const(columns, "int64"), step.rank - 1)
    row = step.emit("row", relax.op.expand_dims(step.emit("rows", rows), -2))
    kept = relax.const(np.eye(size, k=offset, dtype=bool), "bool")
    matrix = step.emit("matrix", relax.op.where(kept, row, step.number(0)))
    rest = iter(range(rank - 2))
    order = [{first: rank - 2, second: rank - 1}.get(axis, -1) for axis in range(rank)]
    return relax.op.permute_dims(matrix, [next(rest) if axis < 0 else axis for axis in order])


def _diag(step: TorchStep) -> Result:
    """Return a matrix with a vector on its diagonal, or the diagonal of a matrix."""
    offset = {"offset": step.integer("diagonal", 0)}
    given = replace(step, arguments={"self": step.x, **offset})
    return (_on_diagonal if step.rank == 1 else _diagonal)(given)


def _triangle(upper: bool) -> Converter:
    """Keep what is on one side of a diagonal; the rest is zero."""

    def _convert(step: TorchStep) -> Result:
        diagonal = step.integer("diagonal", 0)
        rows, columns = shape(step.x)[-2:]
        kept = np.tri(rows, columns, diagonal - upper, dtype=bool) ^ upper
        return relax.op.where(relax.const(kept, "bool"), step.x, step.number(0))

    return _convert


DIAGONALS: dict[str, Converter] = {
    "diag": _diag,
    "diag_embed": _on_diagonal,
    "diagonal": _diagonal,
    "tril": _triangle(upper=False),
    "triu": _triangle(upper=True),
}
