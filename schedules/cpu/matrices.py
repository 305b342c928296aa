"""Matrices of activations on their way into a dot product, at run time.

    rows   : the operand that a step broadcasts, read where it lies, or from a copy of a few rows
    panels : (batch * heads, blocks, steps, 16 lanes * width)   the other operand, a vector per step
    sums   : (batch * heads, blocks, 16)                        of each column of the panels

A block is 16 columns. Steps past the depth are zero, and so are elements past it in the last one;
lanes past the columns hold anything. Instructions multiply panels as int8, rows as ``dot`` has it:
what is of the other sign is moved by 128, and so is its zero point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.bodies.buffers import ramp
from schedules.bodies.epilogue import broadcast
from schedules.bodies.matrices import Matrix
from schedules.cpu.dot import LANES, Dot

SIGN = 128
Row = Callable[[Any, Expr], Expr]
"""``(row of the tile, step)`` -> the elements of one step."""


def row_type(dot: Dot) -> str:
    """Return the type of the rows that ``dot`` multiplies, the one it likes if it takes several."""
    return dot.x_types[0]


def moved(value: Expr, dtype: str) -> Expr:
    """Return integer lanes as ``dtype``, those of the other sign moved by 128; floats as is."""
    count = int(value.ty.dtype.lanes)
    own = str(value.ty.dtype.with_lanes(1)) if count > 1 else str(value.ty.dtype)
    if own == dtype:
        return value
    flipped = tirx.reinterpret(_vector("uint8", count), value) ^ broadcast(
        tirx.const(SIGN, "uint8"), count
    )
    return tirx.reinterpret(_vector(dtype, count), flipped)


def moved_zero(z: Expr, dtype: str, wanted: str) -> Expr:
    """Return the zero point of a tensor of ``dtype`` that is multiplied as ``wanted``."""
    if dtype == wanted:
        return z
    return z + tirx.const(SIGN if wanted == "uint8" else -SIGN, "int32")


@dataclass(frozen=True, kw_only=True)
class Panels:
    """How one operand is packed."""

    dot: Dot
    columns: int
    depth: int
    steps: int

    @property
    def blocks(self) -> int:
        """How many blocks of 16 columns there are."""
        return -(-self.columns // LANES)

    @property
    def dtype(self) -> str:
        """Element type."""
        return "float32" if self.dot.float32 else "int8"

    def allocate(self, outer: Any, name: str) -> tuple[Any, Any]:
        """Return the buffers of panels and sums, in the block that is being built."""
        shape = int64((outer, self.blocks, self.steps, LANES * self.dot.width))
        panels = T.sblock_alloc_buffer(shape, self.dtype, layout=None)
        sums = T.sblock_alloc_buffer(int64((outer, self.blocks, LANES)), "int32", layout=None)
        return IRBuilder.name(name, panels), IRBuilder.name(f"{name}_sums", sums)

    def pack(self, source: Matrix, outer: Expr, block: Expr, panels: Any, sums: Any) -> None:
        """Emit one block; ``source`` has the columns as rows, and the depth as columns."""
        flat, start = source.flat(), source.start(outer)
        _, _, _, column, element = source.strides
        width, whole = self.dot.width, self.depth // self.dot.width

        def _read(k: Expr, lane: Expr, count: int = 1) -> Expr:
            """Read ``count`` elements of the depth, from ``k`` on, of one column."""
            last = tirx.min(block * LANES + lane, T.int64(self.columns - 1))
            index = start + last * column + k * element
            return moved(flat[ramp(count, index)], self.dtype)

        def _store(step: Any, lane: Any, value: Expr, j: int = 0) -> None:
            count = int(value.ty.dtype.lanes)
            T.buffer_store(panels, value, [outer, block, step, ramp(count, lane * width + j)])

        def _one_by_one() -> None:
            if element == 1:
                with T.grid(T.int64(LANES), T.int64(whole)) as (lane, step):
                    _store(step, lane, _read(step * width, lane, width))
                return
            with T.grid(T.int64(whole), T.int64(LANES)) as (step, lane):
                for j in range(width):
                    _store(step, lane, _read(step * width + j, lane), j)

        def _sixteen_at_once() -> None:
            with T.serial(T.int64(whole)) as step:
                rows = [
                    flat[ramp(LANES, start + block * LANES + (step * width + j) * element)]
                    for j in range(width)
                ]
                order = [j * LANES + lane for lane in range(LANES) for j in range(width)]
                value = rows[0] if width == 1 else tirx.Shuffle(rows, order)
                _store(step, T.int64(0), moved(value, self.dtype))

        if column == 1 and self.columns >= LANES and element != 1:
            with T.If(block < self.columns // LANES):
                with T.Then():
                    _sixteen_at_once()
                with T.Else():
                    _one_by_one()
        else:
            _one_by_one()
        self._pad(_read, _store, whole)
        if not self.dot.float32:
            self._sum(outer, block, panels, sums)

    def _pad(self, read: Callable[..., Expr], store: Callable[..., None], whole: int) -> None:
        """Emit the step that the depth ends in, and zeros behind it."""
        width, rest = self.dot.width, self.depth % self.dot.width
        zero = tirx.const(0, self.dtype)
        if rest:
            with T.serial(T.int64(LANES)) as lane:
                for j in range(width):
                    value = read(T.int64(whole * width + j), lane) if j < rest else zero
                    store(T.int64(whole), lane, value, j)
        first = whole + (1 if rest else 0)
        if self.steps > first:
            with T.serial(T.int64(self.steps - first)) as step:
                store(step + first, T.int64(0), broadcast(zero, LANES * width))

    def _sum(self, outer: Expr, block: Expr, panels: Any, sums: Any) -> None:
        one = broadcast(tirx.const(1, row_type(self.dot)), self.dot.width)
        index = [outer, block, ramp(LANES)]
        T.buffer_store(sums, broadcast(tirx.const(0, "int32"), LANES), index)
        with T.serial(T.int64(self.steps)) as step:
            w = panels[outer, block, step, ramp(LANES * self.dot.width)]
            T.buffer_store(sums, self.dot.step(sums[tuple(index)], one, w), index)


@dataclass(frozen=True, kw_only=True)
class Tile:
    """Rows by blocks whose sums are in registers at once."""

    rows: int
    blocks: int


def tile_of(dot: Dot, rows: int, blocks: int) -> Tile:
    """Return the tile of a product: rows share panels, blocks share rows, tiles are equal."""
    most, tall = (16, 8) if dot.feature == "avx512vnni" else (4, 2)
    if dot.float32:
        most, tall = 8, 4
    fitting = -(-rows // -(-rows // tall))
    return Tile(rows=fitting, blocks=max(1, min(most // fitting, 4, blocks)))


def accumulate(
    dot: Dot, tile: Tile, steps: int, row: Row, panel: Callable[[int, Expr], Expr]
) -> list[list[Expr]]:
    """Emit the sums of one tile; return them, by row and block.

    ``panel`` is ``(block of the tile, step)`` -> the vector of the panels.
    """
    dtype = "float32" if dot.float32 else "int32"
    zero, all_lanes = broadcast(tirx.const(0, dtype), LANES), [ramp(LANES)]
    sums = [
        [T.sblock_alloc_buffer(int64((LANES,)), dtype, layout=None) for _ in range(tile.blocks)]
        for _ in range(tile.rows)
    ]
    for buffer in _flattened(sums):
        IRBuilder.name("acc", buffer)
        T.buffer_store(buffer, zero, all_lanes)
    with T.serial(T.int64(steps)) as step:
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
        return not is_run or self.source.dtype not in self.dot.x_types

    @property
    def dtype(self) -> str:
        """The type in which they are multiplied."""
        return row_type(self.dot) if self.staged else self.source.dtype

    def reader(self, outer: Expr, first: Expr) -> Row:
        """Emit the copy, where there is one; return what reads a step."""
        flat, start = self.source.flat(), self.source.start(outer)
        _, _, _, down, across = self.source.strides
        width = self.dot.width
        if not self.staged:
            return lambda r, step: flat[ramp(width, start + (first + r) * down + step * width)]
        shape = int64((self.tile.rows, self.steps * width))
        copy = T.sblock_alloc_buffer(shape, self.dtype, layout=None)
        IRBuilder.name("rows", copy)
        with T.serial(T.int64(self.tile.rows)) as r:
            with T.serial(T.int64(self.source.columns)) as k:
                value = flat[start + (first + r) * down + k * across]
                T.buffer_store(copy, moved(value, self.dtype), [r, k])
            with T.serial(T.int64(self.steps * width - self.source.columns)) as k:
                T.buffer_store(copy, tirx.const(0, self.dtype), [r, self.source.columns + k])
        return lambda r, step: copy[T.int64(r), ramp(width, step * width)]

    def corrections(self, row: Row, z: Expr, z_other: Expr) -> Any:
        """Emit a buffer (rows,) of ``z_other`` times the sum of each row, ``z`` off each element.

        Nothing is summed where ``z_other`` is 0.
        """
        height, zero = T.int64(self.tile.rows), tirx.const(0, "int32")
        found = T.sblock_alloc_buffer(int64((self.tile.rows,)), "int32", layout=None)
        vector = T.sblock_alloc_buffer(int64((LANES,)), "int32", layout=None)
        IRBuilder.name("corrections", found)
        IRBuilder.name("total", vector)
        with T.serial(height) as r:
            T.buffer_store(found, zero, [r])
        with T.If(z_other != 0), T.Then(), T.serial(height) as r:
            T.buffer_store(vector, broadcast(zero, LANES), [ramp(LANES)])
            with T.serial(T.int64(self.steps)) as step:
                ones = broadcast(tirx.const(1, "int8"), LANES * self.dot.width)
                value = self.dot.step(vector[ramp(LANES)], row(r, step), ones)
                T.buffer_store(vector, value, [ramp(LANES)])
            total = vector[T.int64(0)] - z * tirx.const(self.source.columns, "int32")
            T.buffer_store(found, total * z_other, [r])
        return found


def _flattened(nested: Sequence[Sequence[Any]]) -> list[Any]:
    return [item for inner in nested for item in inner]


def _vector(dtype: str, count: int) -> str:
    return dtype if count == 1 else f"{dtype}x{count}"
