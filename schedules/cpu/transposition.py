"""Moves that exchange two runs of axes (``schedules.cpu.exchange``), tile by tile in registers.

    x : (outer, rows, columns)      what lies in memory, whatever the layout calls it
    y : (outer, columns, rows)

A tile is 16 vectors of 16 words, which 64 shuffles of two vectors transpose. Of bytes, four
neighbours are a word: a tile has 16 by 64 of them, and one more shuffle of each vector brings the
four to their places. Where the last block of channels is cut, its missing columns are not written,
or its missing rows are zero. Loops (p parallel):

    p:outer * tiles

Exact:  elements are moved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.bodies.buffers import flat, ramp, whole
from schedules.bodies.prim_func import axes, prim_func
from schedules.cpu.elementwise import SERIAL_ELEMENTS
from schedules.cpu.exchange import BYTES, SIDE, Matrices, matrices
from schedules.cpu.lanes import shuffle
from schedules.cpu.words import transposed
from schedules.spec import Move
from schedules.template import Layouts

BLOCK = "tiles"


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


def _as(value: Expr, dtype: str) -> Expr:
    """Return the bits of a vector of 64 bytes as elements of ``dtype``."""
    return tirx.reinterpret(f"{dtype}x{64 // BYTES[dtype]}", value)


def _zeros(dtype: str) -> Expr:
    return tirx.Broadcast(tirx.const(0, dtype), SIDE)
