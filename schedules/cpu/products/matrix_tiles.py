"""A tile of a product of activations: rows by blocks of 16 columns, whose sums are in registers.

A step broadcasts the elements of a row, which are read where they lie, or from a copy of the rows
of the tile, and multiplies them with a vector of the panels (``schedules.cpu.products.panels``).
Tiles of one shape cover all rows: the last begins early enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import allocate, ramp
from schedules.bodies.matrices import Matrix
from schedules.bodies.vectors import broadcast, cast, splat
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.signs import moved, row_type
from schedules.cpu.tiles.runs import by_chunks

Row = Callable[[Any, Expr], Expr]
"""``(row of the tile, step)`` -> the elements of one step."""


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Rows by blocks whose sums are in registers at once."""

    rows: int
    blocks: int


def tile_of(dot: Dot, rows: int, blocks: int) -> Tile:
    """Return the tile of a product: rows share panels, blocks share rows, tiles are equal."""
    most, tall = (16, 8) if dot.feature == "avx512vnni" else (4, 4 if dot.staged else 2)
    if dot.float32:
        most, tall = 8, 4
    fitting = -(-rows // -(-rows // tall))
    return Tile(rows=fitting, blocks=max(1, min(most // fitting, 4, blocks)))


def accumulate(
    dot: Dot,
    tile: Tile,
    steps: int,
    row: Row,
    panel: Callable[[int, Expr], Expr],
    beside: Callable[[Expr], None] | None = None,
) -> list[list[Expr]]:
    """Emit the sums of one tile; return them, by row and block.

    ``panel`` is ``(block of the tile, step)`` -> the vector of the panels; ``beside`` emits what
    else a step does.
    """
    dtype = "float32" if dot.float32 else "int32"
    zero, all_lanes = splat(0, dtype, LANES), [ramp(LANES)]
    sums = [
        [allocate("acc", (LANES,), dtype) for _ in range(tile.blocks)] for _ in range(tile.rows)
    ]
    for buffer in _flattened(sums):
        T.buffer_store(buffer, zero, all_lanes)
    with T.serial(T.int64(steps)) as step:
        if beside:
            beside(step)
        vectors = [T.Bind(panel(block, step)) for block in range(tile.blocks)]
        for r, of_row in enumerate(sums):
            x = T.Bind(row(r, step))
            for w, buffer in zip(vectors, of_row, strict=True):
                T.buffer_store(buffer, dot.step(buffer[ramp(LANES)], x, w), all_lanes)
    return [[buffer[ramp(LANES)] for buffer in of_row] for of_row in sums]


def by_blocks(blocks: int, wide: int, emit: Callable[[Expr, int], None]) -> None:
    """Emit ``emit(first block, how many)`` for all blocks, ``wide`` at a time, then the rest."""
    if blocks // wide:
        with T.serial(T.int64(blocks // wide)) as group:
            emit(group * wide, wide)
    if blocks % wide:
        emit(T.int64(blocks // wide * wide), blocks % wide)


def first_row(tile: Expr, height: int, rows: int) -> Expr:
    """Return the row with which a tile begins, early enough that all of its rows exist."""
    return tirx.min(tile * height, T.int64(rows - height))


def store_lanes(buffer: Any, value: Expr, start: Expr, step: int, left: Expr | int) -> None:
    """Emit the store of 16 lanes ``step`` apart, of which ``left`` exist (all, if it is an int)."""
    if step == 1 and isinstance(left, int):
        T.buffer_store(buffer, value, [ramp(LANES, start)])
        return
    bound = T.Bind(value)

    def _one_by_one() -> None:
        for lane in range(LANES):
            with T.If(lane < left), T.Then():
                element = tirx.Shuffle([bound], [lane])
                T.buffer_store(buffer, element, [start + lane * step])

    if step != 1:
        _one_by_one()
        return
    with T.If(left >= LANES):
        with T.Then():
            T.buffer_store(buffer, bound, [ramp(LANES, start)])
        with T.Else():
            _one_by_one()


@dataclass(frozen=True, kw_only=True)
class Rows:
    """A tile's rows of the operand that is broadcast.

    ``first`` is the row of the matrix with which the tile begins; those of the last tile begin
    earlier, so that they all exist.
    """

    dot: Dot
    source: Matrix
    tile: Tile
    steps: int

    @property
    def staged(self) -> bool:
        """Whether the instruction cannot read them where they lie."""
        is_run = self.source.strides[4] == 1 and self.source.columns % self.dot.width == 0
        is_taken = self.source.dtype in self.dot.x_types and not self.dot.staged
        return not is_run or not is_taken

    @property
    def dtype(self) -> str:
        """The type whose values are multiplied."""
        is_taken = self.source.dtype in self.dot.x_types
        return self.source.dtype if is_taken else row_type(self.dot)

    def reader(self, outer: Expr, first: Expr) -> Row:
        """Emit the copy, where there is one; return what reads a step."""
        flat, start = self.source.flat(), self.source.start(outer)
        _, _, _, down, across = self.source.strides
        width = self.dot.width
        if not self.staged:
            return lambda r, step: flat[ramp(width, start + (first + r) * down + step * width)]
        dtype = self.dot.staged or self.dtype
        copy = allocate("rows", (self.tile.rows, self.steps * width), dtype)
        columns = self.source.columns
        with T.serial(T.int64(self.tile.rows)) as r:

            def _elements(k: Expr, count: int) -> None:
                value = moved(
                    flat[ramp(count, start + (first + r) * down + k * across)], self.dtype
                )
                widened = value if dtype == self.dtype else cast(value, dtype)
                T.buffer_store(copy, widened, [r, ramp(count, k)])

            by_chunks(columns, LANES if across == 1 else 1, _elements)
            with T.serial(T.int64(self.steps * width - columns)) as k:
                T.buffer_store(copy, tirx.const(0, dtype), [r, columns + k])
        return lambda r, step: copy[T.int64(r), ramp(width, step * width)]

    def corrections(self, row: Row, z: Expr, z_other: Expr) -> Any:
        """Emit a buffer (rows,) of ``z_other`` times the sum of each row, ``z`` off each element.

        Nothing is summed where ``z_other`` is 0.
        """
        height, zero = T.int64(self.tile.rows), tirx.const(0, "int32")
        corrections = allocate("corrections", (self.tile.rows,), "int32")
        vector = allocate("total", (LANES,), "int32")
        with T.serial(height) as r:
            T.buffer_store(corrections, zero, [r])
        with T.If(z_other != 0), T.Then(), T.serial(height) as r:
            T.buffer_store(vector, broadcast(zero, LANES), [ramp(LANES)])
            with T.serial(T.int64(self.steps)) as step:
                ones = splat(1, "int8", LANES * self.dot.width)
                value = self.dot.step(vector[ramp(LANES)], row(r, step), ones)
                T.buffer_store(vector, value, [ramp(LANES)])
            total = vector[T.int64(0)] - z * tirx.const(self.source.columns, "int32")
            T.buffer_store(corrections, total * z_other, [r])
        return corrections


def _flattened(nested: Sequence[Sequence[Any]]) -> list[Any]:
    return [item for inner in nested for item in inner]
