"""Moves that exchange two runs of axes (``moves.exchange``), tile by tile in registers.

    x : (outer, rows, columns)      what lies in memory, whatever the layout calls it
    y : (outer, columns, rows)

A register is one, two or four parts of 16 bytes. Each part is a row of a square matrix (16 by 16
bytes, 4 by 4 words) and is transposed with the same part of the other rows' registers, by
interleaving pairs of registers: four rounds for bytes, two for words.

    gathered    a part is loaded from each of several rows of x; y is stored by whole registers
    scattered   x is loaded by whole registers; a part is stored to each of several rows of y

Bytes are gathered where x is taller than wide, and scattered elsewhere; words are gathered. Where
the last block of channels is cut, its missing columns are not written, or its missing rows are
zero. Loops (p parallel):

    p:outer * tiles

Exact:  elements are moved.
"""

from __future__ import annotations

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
from schedules.cpu.moves.exchange import BYTES, SIDE, Matrices, matrices
from schedules.spec import Move
from schedules.template import Layouts

BLOCK = "tiles"
PART_BYTES = 16  # within which every instruction set interleaves elements

_Load = Callable[[int, int, int], Expr]  # so many elements of a row of x from a row and column on
_Store = Callable[[int, int, Expr], None]  # elements of a row of y, of x's rows from a place on


def kernel(spec: Move, layouts: Layouts, template: str, parts: int) -> tirx.PrimFunc:
    """Return the PrimFunc, for registers of ``parts``; ``matrices`` must have found some."""
    found = matrices(spec, layouts)
    assert found is not None
    shapes = {
        "x": layouts.inputs[0].physical_shape(spec.x_shape),
        "y": layouts.output.physical_shape(spec.y_shape),
    }
    with prim_func() as builder:
        x, y = (T.arg(name, T.buffer(int64(s), spec.x, layout=None)) for name, s in shapes.items())
        tile = _Tile(found, spec.x, parts)
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
    parts: int

    @property
    def side(self) -> int:
        """Elements of a part, and rows of a square."""
        return PART_BYTES // BYTES[self.dtype]

    @property
    def gathers(self) -> bool:
        """Whether a register has parts of several rows of x."""
        return self.side < SIDE or self.of_what.rows >= self.of_what.columns

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return max(SIDE, self.side * self.parts) if self.gathers else SIDE

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return SIDE if self.gathers else self.side * self.parts

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
            self._move(outer, (row, column), x, y, 0)
            return
        with T.If(outer % self.of_what.blocks < self.of_what.blocks - 1):
            with T.Then():
                self._move(outer, (row, column), x, y, 0)
            with T.Else():
                self._move(outer, (row, column), x, y, SIDE - self.of_what.cut)

    def _move(self, matrix: Expr, corner: tuple[Expr, Expr], x: Any, y: Any, missing: int) -> None:
        """Emit one tile, of whose last block of channels some are ``missing``."""
        (row, column), found = corner, self.of_what
        x_start, y_start = found.starts(matrix)
        rows = self.rows - missing if found.packs else self.rows
        columns = self.columns if found.packs else self.columns - missing

        def _load(i: int, j: int, count: int) -> Expr:
            if i >= rows:
                return tirx.Broadcast(tirx.const(0, self.dtype), count)
            return x[ramp(count, x_start + (row + i) * found.columns + (column + j))]

        def _store(i: int, j: int, value: Expr) -> None:
            if j < columns:
                here = y_start + (column + j) * found.rows + (row + i)
                T.buffer_store(y, value, [ramp(int(value.ty.dtype.lanes), here)])

        (self._gather if self.gathers else self._scatter)(_load, _store)

    def _gather(self, load: _Load, store: _Store) -> None:
        """Load parts of several rows to a register; store registers."""
        side, wide = self.side, self.side * self.parts
        for i in range(0, self.rows, wide):
            for j in range(0, self.columns, side):
                parts = [
                    [load(i + part * side + k, j, side) for part in range(self.parts)]
                    for k in range(side)
                ]
                for k, value in enumerate(self._transposed([_joined(row) for row in parts])):
                    store(i, j + k, value)

    def _scatter(self, load: _Load, store: _Store) -> None:
        """Load registers; store the parts of one to several rows."""
        side, wide = self.side, self.side * self.parts
        for k, value in enumerate(self._transposed([load(k, 0, wide) for k in range(side)])):
            for part in range(self.parts):
                elements = list(range(part * side, (part + 1) * side))
                is_whole = self.parts == 1
                store(0, part * side + k, value if is_whole else tirx.Shuffle([value], elements))

    def _transposed(self, rows: list[Expr]) -> list[Expr]:
        """Return the columns of the squares of which ``rows`` are the rows, part by part.

        A round moves the highest bit of an element's row to the end of its column, and the highest
        bit of its column to the end of its row. After as many rounds as these have bits, row and
        column have changed places.
        """
        rows, half = [T.Bind(row) for row in rows], self.side // 2
        for _ in range(self.side.bit_length() - 1):
            pairs = list(zip(rows[:half], rows[half:], strict=True))
            rows = [self._interleaved(a, b, start) for a, b in pairs for start in (0, half)]
        return rows

    def _interleaved(self, a: Expr, b: Expr, start: int) -> Expr:
        """Return, in each part, elements of a and b in turns, from ``start`` on."""
        wide = self.side * self.parts
        order = [
            base + start + i + vector
            for base in range(0, wide, self.side)
            for i in range(self.side // 2)
            for vector in (0, wide)
        ]
        return T.Bind(tirx.Shuffle([a, b], order))


def _joined(parts: Sequence[Expr]) -> Expr:
    """Return one register of its parts."""
    count = len(parts) * int(parts[0].ty.dtype.lanes)
    return tirx.Shuffle(list(parts), list(range(count))) if len(parts) > 1 else parts[0]
