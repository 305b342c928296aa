"""Sixteen vectors of sixteen words, transposed by 64 shuffles of two vectors."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.cpu.exchange import SIDE


def transposed(vectors: Sequence[Expr]) -> list[Expr]:
    """Return the columns of 16 vectors of 16 words: pairs, fours, then blocks of four words."""
    bound = [T.Bind(vector) for vector in vectors]
    pairs = [
        _joined(bound[i], bound[i + 1], [first, SIDE + first, first + 1, SIDE + first + 1])
        for i in range(0, SIDE, 2)
        for first in (0, 2)
    ]
    fours = [
        _joined(pairs[k + half], pairs[k + half + 2], [j, j + 1, SIDE + j, SIDE + j + 1])
        for k in range(0, SIDE, 4)
        for half in (0, 1)
        for j in (0, 2)
    ]
    columns: list[Expr] = [bound[0]] * SIDE
    for j in range(4):
        blocks = [fours[4 * k + j] for k in range(4)]
        for odd in (0, 1):
            low, high = (_blocks(blocks[k], blocks[k + 1], odd) for k in (0, 2))
            for second in (0, 1):
                columns[4 * (odd + 2 * second) + j] = _blocks(low, high, second)
    return columns


def _joined(a: Expr, b: Expr, order: Sequence[int]) -> Expr:
    """Return words of two vectors, in each block of four by the same ``order``."""
    return T.Bind(tirx.Shuffle([a, b], [i + base for base in range(0, SIDE, 4) for i in order]))


def _blocks(a: Expr, b: Expr, odd: int) -> Expr:
    """Return the even or odd blocks of four words of two vectors."""
    starts = [base + 4 * block for base in (0, SIDE) for block in (odd, odd + 2)]
    return T.Bind(tirx.Shuffle([a, b], [start + i for start in starts for i in range(4)]))
