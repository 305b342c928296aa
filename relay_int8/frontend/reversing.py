"""Turning the first steps of each sequence around, as many as a computed length says."""

from __future__ import annotations

import numpy as np
from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.graph.dataflow import shape


def reversed_sequences(
    emit: Emit, x: relax.Expr, lengths: relax.Expr, time: int, batch: int
) -> relax.Expr:
    """Return ``x`` with step t of each sequence from its step length - 1 - t; what follows stays.

    Parameters
    ----------
    emit
        Binds a value on the way under a name.
    x
        Sequences.
    lengths
        One number, of any type, for each.
    time, batch
        The axes of ``x`` that count steps and sequences.
    """
    dims = shape(x)
    if time == batch or shape(lengths) != (dims[batch],):
        raise ValueError(f"its lengths are {list(shape(lengths))} along axes {time} and {batch}")

    def _along(axis: int) -> list[int]:
        return [-1 if place == axis else 1 for place in range(len(dims))]

    whole = emit("whole", relax.op.astype(lengths, "int64"))
    count = emit("count", relax.op.reshape(whole, _along(batch)))
    steps = np.arange(dims[time]).reshape(_along(time))
    now = relax.const(steps, "int64")
    mirrored = emit("mirrored", relax.op.subtract(count, relax.const(steps + 1, "int64")))
    is_inside = emit("inside", relax.op.less(now, count))
    places = emit("places", relax.op.where(is_inside, mirrored, now))
    each = emit("each", relax.op.broadcast_to(places, dims))
    return relax.op.gather_elements(x, each, time)
