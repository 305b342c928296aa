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

from schedules.cuda.mma.tiles import CHUNK, MMA_ROWS, WARP, MmaTiles
from schedules.cuda.mma.weights import BLOCK
from schedules.spec import Conv2d, Dense

THREAD_CHANNELS = 8  # channels of a pixel that one thread sums
VECTOR_WORDS = 4  # of one load or store
WORD = 4  # bytes
SWAPPED = 4  # pixels, of which every second have their halves the other way round
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
        ``(image, row, group)`` -> the byte of x at which the first slab of a pixel would begin, and
        bits of the rows, then of the columns, of its window that are outside, None if none can be.
    y
        ``(image, row, channel)`` -> the index in y and r.
    block_bytes
        From a block of input channels to the next.
    taps, tap_bytes
        Rows and columns of the window, and bytes of x from one to the next. Slabs are counted by
        taps, then by blocks of channels.
    has_border
        Whether ``x`` returns bits.
    channels
        How many of the channels y has, where it does not have whole blocks.
    depth
        How many bytes a row of x has, where the last slab reaches past them.
    """

    template: str
    buffers: dict[str, tuple[Any, str]]
    images: Any
    rows: int
    groups: int
    blocks: int
    slabs: int
    x: Callable[[Expr, Expr, Expr], tuple[Expr, Expr | None]]
    y: Callable[[Expr, Expr, Expr], Index]
    block_bytes: int
    taps: tuple[int, int] = (1, 1)
    tap_bytes: tuple[int, int] = (0, 0)
    has_border: bool = False
    channels: int | None = None
    depth: int | None = None

    @property
    def tap_slabs(self) -> int:
        """Slabs of one tap."""
        return self.slabs // (self.taps[0] * self.taps[1])

    @property
    def window_type(self) -> str:
        """The type whose bits are rows and columns of the window, of which none is its sign."""
        return "int32" if sum(self.taps) < 32 else "int64"


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
    def matrix_row(self) -> Expr:
        """Byte of 16 pixels' slabs that the thread's row of ldmatrix begins at."""
        half = tirx.floordiv(self.lane, MMA_ROWS)
        pixel = tirx.floormod(self.lane, MMA_ROWS)
        return pixel * BLOCK + stored_half(half, pixel) * CHUNK

    @property
    def own(self) -> Expr:
        """First of the thread's channels of a block."""
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


def stored_half(half: Expr, pixel: Expr) -> Expr:
    """Return where a half of a pixel's slab is stored, or which half is stored there."""
    return tirx.floormod(half + tirx.floordiv(pixel, SWAPPED), 2)


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
