"""Moves that exchange two runs of axes, tile by tile in registers.

    x : (outer, rows, columns)      what lies in memory, whatever the layout calls it
    y : (outer, columns, rows)

An image that goes from NCHW16c to row major is so many matrices of (pixels, 16), and back; tokens
become an image by one matrix. Where the last block of channels is cut, its missing columns are not
written, or its missing rows are zero.

A tile is 16 vectors of 16 words, which 64 shuffles of two vectors transpose. Of bytes, four
neighbours are a word: a tile has 16 by 64 of them, and one more shuffle of each vector brings the
four to their places. Loops (p parallel):

    p:outer * tiles

Exact:  elements are moved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.bodies.buffers import flat, ramp, whole
from schedules.bodies.prim_func import axes, prim_func
from schedules.cpu.elementwise import SERIAL_ELEMENTS
from schedules.cpu.lanes import shuffle
from schedules.layout import NCHW16C, ROW
from schedules.spec import Move
from schedules.template import Layouts

SIDE = 16  # vectors of a tile, and words of a vector
BYTES = {"int8": 1, "uint8": 1, "int32": 4, "float32": 4}
BLOCK = "tiles"


@dataclass(frozen=True)
class Matrices:
    """Matrices one behind the other; ``outer`` of them may be symbolic.

    Parameters
    ----------
    outer, rows, columns
        Of x; y has the columns as rows.
    channels
        Of an image whose blocks of channels the matrices are; 0 where there are none.
    packs
        Whether y has the blocks, of 16 rows of x each, or x, of 16 columns.
    """

    outer: Any
    rows: int
    columns: int
    channels: int = 0
    packs: bool = False

    @property
    def blocks(self) -> int:
        """Matrices of an image."""
        return max(1, -(-self.channels // SIDE))

    @property
    def cut(self) -> int:
        """Channels of the last block; 0 where it is whole."""
        return self.channels % SIDE

    def starts(self, matrix: Expr) -> tuple[Expr, Expr]:
        """Return where a matrix begins in x and in y: row major images have no missing channels."""
        blocked = matrix * (self.rows * self.columns)
        if not self.channels:
            return blocked, blocked
        channel = matrix // self.blocks * self.channels + matrix % self.blocks * SIDE
        if self.packs:
            return channel * self.columns, blocked
        return blocked, channel * self.rows


def matrices(spec: Move, layouts: Layouts) -> Matrices | None:
    """Return the matrices that ``spec`` transposes, if that is what it does."""
    source, target = layouts.inputs[0], layouts.output
    if spec.x not in BYTES:
        return None
    if spec.move in ("copy", "reshape") and {source, target} == {NCHW16C, ROW}:
        n, c, *size = spec.x_shape if source == NCHW16C else spec.y_shape
        packs, channels, pixels = target == NCHW16C, int(c), math.prod(size)
        rows, columns = (SIDE, pixels) if packs else (pixels, SIDE)
        found = Matrices(n * -(-channels // SIDE), rows, columns, channels, packs)
    elif spec.move == "transpose" and source == target == ROW:
        exchanged = _exchanged(spec.arguments)
        if exchanged is None:
            return None
        first, second = exchanged
        outer, rows, columns = (
            math.prod(spec.x_shape[a:b]) for a, b in ((0, first), (first, second), (second, None))
        )
        found = Matrices(outer, rows, columns)
    else:
        return None
    if not isinstance(found.rows, int):  # the batch itself changes places
        return None
    narrow, wide = sorted((found.rows, found.columns))
    return found if narrow >= SIDE and wide >= SIDE * 4 // BYTES[spec.x] else None


def _exchanged(order: Sequence[int]) -> tuple[int, int] | None:
    """Return where the two runs begin that are exchanged behind axes that stay, or None."""
    first = next((i for i, axis in enumerate(order) if axis != i), len(order))
    second = order[first] if first < len(order) else 0
    expected = [*range(first), *range(second, len(order)), *range(first, second)]
    return (first, second) if list(order) == expected and first < second else None


def kernel(spec: Move, layouts: Layouts, template: str) -> tirx.PrimFunc:
    """Return the PrimFunc; ``matrices`` must have found some."""
    found = matrices(spec, layouts)
    assert found is not None
    shapes = {
        "x": layouts.inputs[0].physical_shape(spec.x_shape),
        "y": layouts.output.physical_shape(spec.y_shape),
    }
    with prim_func() as builder:
        x, y = (T.arg(name, T.buffer(int64(s), spec.x, layout=None)) for name, s in shapes.items())
        tile = _Tile.of(found, spec.x)
        count = found.outer * tile.down * tile.across
        is_large = not isinstance(count, int) or count * tile.size >= SERIAL_ELEMENTS
        tasks = (T.parallel if is_large else T.serial)(*int64([count]))
        with T.sblock("root"), tasks as loop, T.sblock(BLOCK):
            (task,) = axes("tile", int64([count]), [loop])
            T.reads(whole(x))
            T.writes(whole(y))
            T.sblock_attr({"template": template})
            tile.emit(task, flat(x), flat(y))
    return builder.get()


@dataclass(frozen=True)
class _Tile:
    """Emits tiles of ``rows`` by ``columns``; the last ones begin early, so that all are whole."""

    of_what: Matrices
    dtype: str
    rows: int
    columns: int

    @classmethod
    def of(cls, found: Matrices, dtype: str) -> _Tile:
        """Return the tile whose longer side is along the longer side of the matrices."""
        long = SIDE * 4 // BYTES[dtype]
        is_tall = found.rows >= found.columns
        return cls(found, dtype, *((long, SIDE) if is_tall else (SIDE, long)))

    @property
    def size(self) -> int:
        """How many elements it has."""
        return self.rows * self.columns

    @property
    def down(self) -> int:
        """Tiles of a column of the matrix."""
        return -(-self.of_what.rows // self.rows)

    @property
    def across(self) -> int:
        """Tiles of a row."""
        return -(-self.of_what.columns // self.columns)

    def emit(self, task: Expr, x: Any, y: Any) -> None:
        """Emit one tile."""
        rows, columns = self.of_what.rows, self.of_what.columns
        outer, tile = task // (self.down * self.across), task % (self.down * self.across)
        row = tirx.min(tile // self.across * self.rows, T.int64(rows - self.rows))
        column = tirx.min(tile % self.across * self.columns, T.int64(columns - self.columns))
        if not self.of_what.cut:
            self._move(outer, (row, column), x, y, SIDE)
            return
        with T.If(outer % self.of_what.blocks < self.of_what.blocks - 1):
            with T.Then():
                self._move(outer, (row, column), x, y, SIDE)
            with T.Else():
                self._move(outer, (row, column), x, y, self.of_what.cut)

    def _move(self, matrix: Expr, corner: tuple[Expr, Expr], x: Any, y: Any, kept: int) -> None:
        """Emit one tile, of whose channels ``kept`` exist."""
        (row, column), found = corner, self.of_what
        x_start, y_start = found.starts(matrix)
        x_kept, y_kept = (kept, SIDE) if found.packs else (SIDE, kept)

        def _row(i: int, count: int) -> Expr:
            return x[ramp(count, x_start + (row + i) * found.columns + column)]

        def _store(i: int, value: Expr) -> None:
            here = y_start + (column + i) * found.rows + row
            T.buffer_store(y, value, [ramp(int(value.ty.dtype.lanes), here)])

        if BYTES[self.dtype] == 4:
            words = [_row(i, SIDE) if i < x_kept else _zeros(self.dtype) for i in range(SIDE)]
            for i, value in enumerate(transposed(words)[:y_kept]):
                _store(i, value)
        elif self.rows > self.columns:
            self._gather(_row, _store, y_kept)
        else:
            self._scatter(_row, _store, x_kept)

    def _gather(
        self, row: Callable[[int, int], Expr], store: Callable[[int, Expr], None], kept: int
    ) -> None:
        """Emit a tile of 64 rows by 16 bytes: four rows are a vector, of whose bytes words."""
        fours = []
        for i in range(0, self.rows, 4):
            if self.of_what.columns == SIDE:
                four = row(i, 4 * SIDE)
            else:
                four = tirx.Shuffle([row(i + j, SIDE) for j in range(4)], list(range(4 * SIDE)))
            order = [j * SIDE + column for column in range(SIDE) for j in range(4)]
            fours.append(_as(shuffle(T.Bind(four), order), "int32"))
        for i, value in enumerate(transposed(fours)[:kept]):
            store(i, _as(value, self.dtype))

    def _scatter(
        self, row: Callable[[int, int], Expr], store: Callable[[int, Expr], None], kept: int
    ) -> None:
        """Emit a tile of 16 rows by 64 bytes: vectors of four columns of y."""
        zero = _as(_zeros("int32"), self.dtype)
        rows = [row(i, 4 * SIDE) if i < kept else zero for i in range(SIDE)]
        for i, value in enumerate(transposed([_as(r, "int32") for r in rows])):
            order = [a * 4 + j for j in range(4) for a in range(SIDE)]
            four = T.Bind(shuffle(T.Bind(_as(value, self.dtype)), order))
            if self.of_what.rows == SIDE:
                store(4 * i, four)
                continue
            for j in range(4):
                store(4 * i + j, tirx.Shuffle([four], list(range(j * SIDE, (j + 1) * SIDE))))


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


def _as(value: Expr, dtype: str) -> Expr:
    """Return the bits of a vector of 64 bytes as elements of ``dtype``."""
    return tirx.reinterpret(f"{dtype}x{64 // BYTES[dtype]}", value)


def _zeros(dtype: str) -> Expr:
    return tirx.Broadcast(tirx.const(0, dtype), SIDE)
