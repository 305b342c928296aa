"""One operand of a product of activations, packed as weights are, at run time.

    panels : (batch * heads, blocks, steps, 16 lanes * width)   a vector per step
    sums   : (batch * heads, blocks, 16)                        of each column of the panels

A block is 16 columns. Steps past the depth are zero, and so are elements past it in the last one;
lanes past the columns hold anything. Integers are int8, see ``schedules.cpu.signs``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import allocate, ramp
from schedules.bodies.matrices import Matrix
from schedules.bodies.vectors import broadcast, splat
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.signs import moved, row_type


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

    def buffers(self, outer: Any, name: str) -> tuple[Any, Any]:
        """Return the buffers of panels and sums, in the block that is being built."""
        shape = (outer, self.blocks, self.steps, LANES * self.dot.width)
        panels = allocate(name, shape, self.dtype)
        return panels, allocate(f"{name}_sums", (outer, self.blocks, LANES), "int32")

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
        one = splat(1, row_type(self.dot), self.dot.width)
        index = [outer, block, ramp(LANES)]
        T.buffer_store(sums, splat(0, "int32", LANES), index)
        with T.serial(T.int64(self.steps)) as step:
            w = panels[outer, block, step, ramp(LANES * self.dot.width)]
            T.buffer_store(sums, self.dot.step(sums[tuple(index)], one, w), index)
