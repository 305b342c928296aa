"""Four outputs of a convolution of three taps by six multiplications, in whole numbers.

Outputs ``y[i] = sum over k of w[k] x[i + k]``, for i < 4, follow from values at six points of the
projective line (0, 1, -1, 2, -1/2 and infinity):

    30 y = OUTPUT ((WEIGHTS w) * (INPUT x))       element by element in the middle

All entries are integers; WEIGHTS has the factors in it that make 30 the same for each point. These
points have the smallest entries of those whose 30 has a single factor 2. In two dimensions the
matrices are applied along either axis, and 30 becomes 900 = 4 * 225:

    int8 weights stay within 28800, bytes within 24990: int16 holds both
    4 y is exact in sums modulo 2^32, as 225 has an inverse there

Source: Toom, "The Complexity of a Scheme of Functional Elements" (1963), and Cook (1966), in the
transposed form of Winograd; Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.vectors import lanes, splat

TAPS, OUTPUTS, POINTS = 3, 4, 6
SCALE = 30
SHIFT = 2  # of SCALE ** 2, whose other factor has an inverse
ODD_INVERSE = pow(SCALE**2 >> SHIFT, -1, 1 << 32)

Matrix = Sequence[Sequence[int]]
INPUT: Matrix = (
    (2, 3, -4, -3, 2, 0),
    (0, -2, -5, -1, 2, 0),
    (0, 2, 1, -5, 2, 0),
    (0, -1, -2, 1, 2, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 2, 3, -4, -3, 2),
)
OUTPUT: Matrix = (
    (1, 1, 1, 1, 8, 0),
    (0, 1, -1, 2, -4, 0),
    (0, 1, 1, 4, 2, 0),
    (0, 1, -1, 8, -1, 1),
)
WEIGHTS: Matrix = (
    (15, 0, 0),
    (-5, -5, -5),
    (5, -5, 5),
    (1, 2, 4),
    (-4, 2, -1),
    (0, 0, 15),
)


def weights_at_points(w: np.ndarray) -> np.ndarray:
    """Return int8 kernels (..., 3, 3) at the points of both axes: int16 (..., 6, 6)."""
    matrix = np.array(WEIGHTS, np.float32).T  # whole numbers of 16 bits: floats are exact, and fast
    rows = np.tensordot(w.astype(np.float32), matrix, axes=(-2, 0))
    return np.tensordot(rows, matrix, axes=(-2, 0)).astype(np.int16)


def transformed(matrix: Matrix, load: Callable[[int, int], Expr]) -> list[list[Expr]]:
    """Return ``matrix`` times vectors times its transpose, each bound in the kernel being built.

    Parameters
    ----------
    load
        ``(row, column)`` -> a vector of integers; read a column at a time, so that few wait.
    """
    size = len(matrix[0])
    columns = [_products(matrix, [T.Bind(load(i, j)) for i in range(size)]) for j in range(size)]
    return [_products(matrix, row) for row in zip(*columns, strict=True)]


def _products(matrix: Matrix, values: Sequence[Expr]) -> list[Expr]:
    """Return ``matrix`` times a column of vectors."""
    return [T.Bind(_sum_of_products(row, values)) for row in matrix]


def _sum_of_products(factors: Sequence[int], values: Sequence[Expr]) -> Expr:
    """Return the sum of ``factors`` times ``values``, those that are added first."""
    terms = [(factor, value) for factor, value in zip(factors, values, strict=True) if factor]
    positive = [_times(factor, value) for factor, value in terms if factor > 0]
    negative = [_times(-factor, value) for factor, value in terms if factor < 0]
    total = sum(positive[1:], positive[0])
    for product in negative:
        total = total - product
    return total


def _times(factor: int, value: Expr) -> Expr:
    if factor == 1:
        return value
    dtype = str(value.ty.dtype).split("x")[0]
    return value * splat(factor, dtype, lanes(value))


def unscaled(value: Expr) -> Expr:
    """Return int32 lanes that hold 900 y modulo 2^32 as y, while it is less than 2^29."""
    signed = ODD_INVERSE - (1 << 32 if ODD_INVERSE >> 31 else 0)
    count = lanes(value)
    exact = value * splat(signed, "int32", count)
    return exact >> splat(SHIFT, "int32", count)
