"""Determinants and inverses of small matrices, by their minors, and products in float.

    det(M)     = sum over j of (-1)^j * M[0, j] * det(M without row 0 and column j)
    inverse(M) = adjugate(M) / det(M)

Poses, cameras and affine maps have 2 to 4 rows; a network computes them in float. Constant matrices
have any size, and their results are constants: flows mix channels by a matrix of weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.graph.dataflow import constant, dtype, shape

Array = np.ndarray[Any, Any]

MOST_ROWS = 4  # twice the terms with each row more, and less and less accurate


def determinant(emit: Emit, x: relax.Expr) -> relax.Expr:
    """Return (...,) determinants of (..., n, n) matrices."""
    known = _known(x)
    if known is not None:
        return relax.const(np.linalg.det(known).astype(dtype(x)))
    minors = _Minors(emit, x)
    whole = tuple(range(minors.size))
    *outer, _, _ = shape(x)
    return relax.op.reshape(minors.of(whole, whole), outer)


def sign_and_log(emit: Emit, x: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """Return the signs of (...,) determinants, and the logarithms of their sizes."""
    known = _known(x)
    if known is not None:  # a determinant of many rows may be no float
        sign, log = np.linalg.slogdet(known)
        return relax.const(sign.astype(dtype(x))), relax.const(log.astype(dtype(x)))
    det = emit("det", determinant(emit, x))
    return relax.op.sign(det), relax.op.log(emit("size", relax.op.abs(det)))


def inverse(emit: Emit, x: relax.Expr) -> relax.Expr:
    """Return the inverses of (..., n, n) matrices; of singular ones no finite numbers."""
    known = _known(x)
    if known is not None and np.linalg.slogdet(known).sign.all():
        return relax.const(np.linalg.inv(known).astype(dtype(x)))
    minors = _Minors(emit, x)
    whole = tuple(range(minors.size))
    if minors.size == 1:
        return relax.op.divide(relax.const(np.ones((), dtype(x))), x)
    rows = []
    for i in whole:
        cofactors = []
        for j in whole:
            minor = minors.of(_without(whole, j), _without(whole, i))
            cofactors.append(minor if (i + j) % 2 == 0 else emit("minus", relax.op.negative(minor)))
        rows.append(emit("row", relax.op.concat(cofactors, -1)))
    adjugate = emit("adjugate", relax.op.concat(rows, -2))
    return relax.op.divide(adjugate, minors.of(whole, whole))


def product(emit: Emit, a: relax.Expr, b: relax.Expr) -> relax.Expr:
    """Return (..., m, k) matrices times (..., k, n) ones, element by element.

    A matrix product would be of integers, which have no room for coordinates.
    """
    rows = emit("rows", relax.op.expand_dims(a, -1))
    columns = emit("columns", relax.op.expand_dims(b, -3))
    parts = emit("parts", relax.op.multiply(rows, columns))
    return relax.op.sum(parts, [-2])


def _known(x: relax.Expr) -> Array | None:
    """Return the square matrices of a constant in float64, or None."""
    array = constant(x)
    if array is None or array.shape[-1] != array.shape[-2] or 0 in array.shape:
        return None
    return array.astype(np.float64)


class _Minors:
    """Determinants of parts of matrices, (..., 1, 1), each computed once."""

    def __init__(self, emit: Emit, x: relax.Expr) -> None:
        *_, rows, self.size = shape(x)
        if rows != self.size or not rows:
            raise ValueError(f"matrices {list(shape(x))}, which are not square")
        if rows > MOST_ROWS:
            raise NotImplementedError(f"matrices of {rows} rows; {MOST_ROWS} are the most")
        self._emit, self._x = emit, x
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], relax.Expr] = {}

    def of(self, rows: tuple[int, ...], columns: tuple[int, ...]) -> relax.Expr:
        """Return the determinant of some rows and as many columns."""
        key = rows, columns
        if key not in self._known:
            self._known[key] = self._element(*rows, *columns) if len(rows) == 1 else self._sum(*key)
        return self._known[key]

    def _sum(self, rows: tuple[int, ...], columns: tuple[int, ...]) -> relax.Expr:
        total: relax.Expr | None = None
        for place, column in enumerate(columns):
            rest = self.of(rows[1:], _without(columns, column))
            part = self._emit("part", relax.op.multiply(self.of(rows[:1], (column,)), rest))
            combine = relax.op.subtract if place % 2 else relax.op.add
            total = part if total is None else self._emit("minor", combine(total, part))
        assert total is not None
        return total

    def _element(self, row: int, column: int) -> relax.Expr:
        rank = len(shape(self._x))
        axes = [rank - 2, rank - 1]
        begin, end = [row, column], [row + 1, column + 1]
        return self._emit("element", relax.op.strided_slice(self._x, axes, begin, end))


def _without(indices: tuple[int, ...], index: int) -> tuple[int, ...]:
    return tuple(other for other in indices if other != index)
