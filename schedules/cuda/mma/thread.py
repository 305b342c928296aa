"""One thread of a tensor-core kernel: what it sums, of which tile, warp and group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx import Expr

from schedules.cuda.mma.operands import Gemm
from schedules.cuda.mma.tiles import CHUNK, MMA_ROWS, WARP, MmaTiles
from schedules.cuda.mma.weights import BLOCK
from schedules.spec import Conv2d, Dense

THREAD_CHANNELS = 8  # channels of a pixel that one thread sums
VECTOR_WORDS = 4  # of one load or store
WORD = 4  # bytes
SWAPPED = 4  # pixels, of which every second have their halves the other way round


@dataclass(frozen=True, kw_only=True)
class Thread:
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
    def number(self) -> Expr:
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
    def first_channel(self) -> Expr:
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
