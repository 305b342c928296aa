"""Rows that are there and rows that are not, in a tensor that has room for all.

A tensor of the file whose length depends on values is one of fixed length here: the file's rows,
then others that stand for nothing. Which are which says a vector of truth values, ``live``: some
true ones, then false ones alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.frontend.suppression import at_least_zero, highest, is_kept, only_where
from relay_int8.graph.dataflow import dtype, shape


@dataclass(frozen=True)
class Counted:
    """That a tensor has only some first rows along an axis.

    Parameters
    ----------
    axis
        The axis.
    live
        bool (rows,): whether there is such a row.
    """

    axis: int
    live: relax.Expr


def filled(emit: Emit, x: relax.Expr, counted: Counted, fill: float) -> relax.Expr:
    """Return ``x`` with ``fill`` in rows that are not there."""
    return emit("filled", only_where(_beside(emit, x, counted), x, fill))


def least_of(kind: str) -> float:
    """Return what no number of a type is below."""
    return -math.inf if kind.startswith("float") else int(np.iinfo(kind).min)


def most_of(kind: str) -> float:
    """Return what no number of a type is above."""
    return math.inf if kind.startswith("float") else int(np.iinfo(kind).max)


def places(emit: Emit, mask: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """Return where a vector of truth values holds, int64 of its length, and how many are there.

    Parameters
    ----------
    emit
        Binds a step under a name.
    mask
        bool (n,).
    """
    (n,) = shape(mask)
    scores = emit("ones", relax.op.astype(mask, "float32"))
    return numbers(emit, highest(emit, scores, least=0.5, count=n))


def numbers(emit: Emit, kept: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """Return numbers of candidates as int64, zero behind the last one, and which are there."""
    place = emit("place", relax.op.astype(at_least_zero(emit, kept), "int64"))
    return place, is_kept(emit, kept)


def joined(emit: Emit, lives: Sequence[relax.Expr | int]) -> tuple[relax.Expr, relax.Expr]:
    """Return in which order rows of tensors behind each other are there, and how many are.

    Parameters
    ----------
    emit
        Binds a step under a name.
    lives
        Of each tensor which rows are there; their number, where all are.
    """
    parts = [
        relax.const(np.ones(live, "bool")) if isinstance(live, int) else live for live in lives
    ]
    return places(emit, emit("lives", relax.op.concat(parts, 0)))


def resized(emit: Emit, live: relax.Expr, rows: int) -> relax.Expr:
    """Return which of ``rows`` are there where several are made of one, or one of several."""
    (n,) = shape(live)
    if rows == n:
        return live
    if rows % n == 0:
        column = emit("column", relax.op.expand_dims(live, 1))
        wide = emit("wide", relax.op.broadcast_to(column, (n, rows // n)))
        return emit("live", relax.op.reshape(wide, (rows,)))
    return emit("live", relax.op.strided_slice(live, [0], [0], [n], [n // rows]))


def part(emit: Emit, live: relax.Expr, begin: int, end: int) -> relax.Expr:
    """Return which rows of a part are there: those from ``begin`` up to ``end``."""
    if (begin, end) == (0, shape(live)[0]):
        return live
    return emit("live", relax.op.strided_slice(live, [0], [begin], [end]))


def number_of_rows(emit: Emit, live: relax.Expr) -> relax.Expr:
    """Return how many rows are there, int64 (1,)."""
    ones = emit("ones", relax.op.astype(live, "int64"))
    return relax.op.sum(ones, [0], keepdims=True)


def without_rest(emit: Emit, x: relax.Expr, counted: Counted) -> relax.Expr:
    """Return ``x`` with zeros for rows that are not there; not bound."""
    return only_where(_beside(emit, x, counted), x, 0)


def written_at(
    emit: Emit, x: relax.Expr, index: relax.Expr, axis: int, live: relax.Expr
) -> tuple[relax.Expr, relax.Expr]:
    """Return ``x`` with one row more along an axis, and an index that leads there what is not.

    Parameters
    ----------
    emit
        Binds a step under a name.
    x
        What is written to.
    index
        Where along ``axis``; broadcast against ``live``.
    axis
        The axis.
    live
        Which indices are there.
    """
    dims = list(shape(x))
    dims[axis] = 1
    spare = relax.const(np.zeros(dims, dtype(x)))
    beyond = relax.const(shape(x)[axis], dtype(index))
    longer = emit("longer", relax.op.concat([x, spare], axis))
    return longer, emit("index", relax.op.where(live, index, beyond))


def _beside(emit: Emit, x: relax.Expr, counted: Counted) -> relax.Expr:
    """Return which rows are there, broadcast against ``x``."""
    dims = [1] * len(shape(x))
    dims[counted.axis] = shape(x)[counted.axis]
    return emit("beside", relax.op.reshape(counted.live, dims))
