"""Where a thread of a tensor-core kernel stands, and the words its code is written in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.cuda.mma.tiles import WARP, MmaTiles
from schedules.spec import Conv2d, Dense

THREAD_CHANNELS = 8  # channels of a pixel that one thread sums
WORD = 4  # bytes
Index = Sequence[Any]


@dataclass(frozen=True, kw_only=True)
class Gemm:
    """What one kernel reads and writes.

    Parameters
    ----------
    template
        The template's name.
    buffers
        Name -> (shape, dtype) of each argument, in order; w as ``pack_weights`` gives it.
    images
        Extent of the outermost loop.
    rows
        Pixels of an image.
    groups, blocks, slabs
        Groups, blocks of output channels of a group, slabs of a group.
    x
        ``(image, row, group, slab, byte)`` -> the index in x, and conditions without which it is
        border.
    y
        ``(image, row, channel)`` -> the index in y and r.
    channels
        How many of the channels y has, where it does not have whole blocks.
    """

    template: str
    buffers: dict[str, tuple[Any, str]]
    images: Any
    rows: int
    groups: int
    blocks: int
    slabs: int
    x: Callable[[Expr, Expr, Expr, Expr, Expr], tuple[Index, list[Expr]]]
    y: Callable[[Expr, Expr, Expr], Index]
    channels: int | None = None


@dataclass(frozen=True, kw_only=True)
class Place:
    """One thread: loops of the grid, the arguments, the address of shared memory."""

    spec: Conv2d | Dense
    gemm: Gemm
    tiles: MmaTiles
    buffers: dict[str, Any]
    staged: Any
    image: Expr
    column: Expr
    tile: Expr
    warp: Expr
    lane: Expr

    @property
    def thread(self) -> Expr:
        """Number of the thread in its block."""
        return self.warp * WARP + self.lane

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.tiles.warps * WARP

    @property
    def warp_row(self) -> Expr:
        """Which of the warps along pixels."""
        return tirx.floormod(self.warp, self.tiles.warp_rows)

    @property
    def warp_block(self) -> Expr:
        """Which of the warps along channels."""
        rest = tirx.floordiv(self.warp, self.tiles.warp_rows)
        return tirx.floormod(rest, self.tiles.warp_blocks)

    @property
    def warp_slab(self) -> Expr:
        """Which of the warps that share the sums of a tile."""
        return tirx.floordiv(self.warp, self.tiles.warp_rows * self.tiles.warp_blocks)

    @property
    def g(self) -> Expr:
        """Row of an mma, of the first eight."""
        return tirx.floordiv(self.lane, 4)

    @property
    def own(self) -> Expr:
        """First of the thread's bytes of a slab, and of its channels of a block."""
        return tirx.floormod(self.lane, 4) * THREAD_CHANNELS

    @property
    def columns(self) -> int:
        """Thread blocks along the channels of a group."""
        return -(-self.gemm.blocks // self.tiles.channel_blocks)

    @property
    def group(self) -> Expr:
        """The group of channels."""
        return tirx.floordiv(self.column, self.columns)

    @property
    def first_block(self) -> Expr:
        """First block of channels of the thread block, in its group."""
        return tirx.floormod(self.column, self.columns) * self.tiles.channel_blocks

    @property
    def first_row(self) -> Expr:
        """First pixel of the thread block."""
        return self.tile * self.tiles.pixels


def call(name: str, *arguments: Any, dtype: str = "void") -> Expr:
    """Call a device function."""
    return tirx.call_extern(dtype, name, *arguments)


def run(name: str, *arguments: Any) -> None:
    """Emit a call of a device function that returns nothing."""
    T.evaluate(call(name, *arguments))


def unrolled(extent: int, start: int = 0) -> Any:
    """Open a loop that CUDA's compiler unrolls, so that what it indexes are registers."""
    return T.unroll(T.int64(start), T.int64(extent))


def barrier() -> None:
    """Emit a barrier of the thread block."""
    T.evaluate(T.tvm_storage_sync("shared"))


@contextmanager
def where(conditions: list[Expr]) -> Iterator[None]:
    """Open a branch; none is emitted where there are no conditions."""
    if conditions:
        with T.If(tirx.all(*conditions)), T.Then():
            yield
    else:
        yield


def registers(name: str, count: int, dtype: str) -> Any:
    """Declare registers of a thread."""
    buffer = T.sblock_alloc_buffer((T.int64(count),), dtype, scope="local", layout=None)
    IRBuilder.name(name, buffer)
    return buffer
