"""Writing elements, in their order, wherever a mask is true, as models do with images' tokens."""

from __future__ import annotations

import math

from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.graph.dataflow import shape


def written_where(emit: Emit, x: relax.Expr, mask: relax.Expr, source: relax.Expr) -> relax.Expr:
    """Return ``x`` with the next element of ``source`` wherever ``mask`` is true.

    How many are true is not known, and need not be: every element of ``x`` reads the element of the
    source whose number is the count of true ones up to it.

    Parameters
    ----------
    emit
        Binds a value on the way under a name.
    x
        Any tensor.
    mask
        Truth values in the shape of ``x``.
    source
        A tensor of the type of ``x`` with at least as many elements as the mask has true ones.
    """
    flat = emit("flat", relax.op.reshape(mask, (math.prod(shape(mask)),)))
    counted = emit("counted", relax.op.cumsum(emit("ones", relax.op.astype(flat, "int64")), 0))
    places = emit("places", relax.op.subtract(counted, relax.const(1, "int64")))
    values = emit("values", relax.op.reshape(source, (math.prod(shape(source)),)))
    read = emit("read", relax.op.take(values, places, 0, mode="clip"))
    return relax.op.where(mask, emit("whole", relax.op.reshape(read, shape(x))), x)


def rows_written_where(
    emit: Emit, x: relax.Expr, mask: relax.Expr, rows: relax.Expr, rest: int
) -> relax.Expr:
    """Return ``x`` with rows of ``rest`` axes over it wherever ``mask`` is true.

    Parameters
    ----------
    emit
        Binds a value on the way under a name.
    x
        Any tensor.
    mask
        Truth values in the shape of ``x``, equal along its last ``rest`` axes.
    rows
        One row for each true value, in their order, or one row, or number, for all.
    rest
        How many axes a row has.
    """
    dims, given = shape(x)[len(shape(x)) - rest :], shape(rows)
    if len(given) <= rest or given[0] == 1:
        row = emit("row", relax.op.reshape(rows, given[max(len(given) - rest, 0) :]))
        return relax.op.where(mask, row, x)
    whole = emit("rows", relax.op.broadcast_to(rows, (given[0], *dims)))
    return written_where(emit, x, mask, whole)
