"""Tiles of the tensor-core kernels, and their search space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from itertools import product

from tvm.s_tir import Schedule

from schedules.cuda.mma.weights import BLOCK

WARP = 32
MMA_ROWS = 16  # pixels of an mma
MOST_SUMS = 128  # of 255 registers of a thread
MOST_WARPS = 8
MOST_COPIES = 12  # of one thread in one fetch: on sm_75 each waits in four registers
CHUNK = 16  # bytes of one copy
SUMS = MMA_ROWS * BLOCK // WARP  # of one thread, for 16 pixels and 32 channels


@dataclass(frozen=True, kw_only=True)
class MmaTiles:
    """How the product is shared out.

    Parameters
    ----------
    rows, blocks
        16 pixels and blocks of 32 channels that a warp multiplies.
    warp_rows, warp_blocks, warp_slabs
        Warps of a block along pixels and channels, and those that share the sums of one tile.
    slabs
        Slabs of one fetch, a multiple of ``warp_slabs``.
    stages
        Fetches that shared memory holds: one is read while the others arrive.
    """

    rows: int
    blocks: int
    warp_rows: int
    warp_blocks: int
    warp_slabs: int
    slabs: int
    stages: int

    @property
    def pixels(self) -> int:
        """Pixels of a thread block."""
        return self.rows * self.warp_rows * MMA_ROWS

    @property
    def channel_blocks(self) -> int:
        """Blocks of channels of a thread block."""
        return self.blocks * self.warp_blocks

    @property
    def warps(self) -> int:
        """Warps of a thread block."""
        return self.warp_rows * self.warp_blocks * self.warp_slabs

    @property
    def sums(self) -> int:
        """Accumulators of a thread."""
        return self.rows * self.blocks * SUMS

    @property
    def x_bytes(self) -> int:
        """Bytes of x in one fetch."""
        return self.slabs * self.pixels * BLOCK

    @property
    def stage_bytes(self) -> int:
        """Bytes of one fetch."""
        return self.x_bytes + self.slabs * self.channel_blocks * BLOCK * BLOCK

    @property
    def copies(self) -> tuple[int, int]:
        """Copies of x and of w that one thread makes in one fetch."""
        part = self.warps * WARP * CHUNK
        return -(-self.x_bytes // part), -(-(self.stage_bytes - self.x_bytes) // part)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory: the stages, then the sums of all warps but the first."""
        others = self.warp_rows * self.warp_blocks * (self.warp_slabs - 1)
        return max(self.stages * self.stage_bytes, others * self.sums * 4 * WARP)

    def fits(self, most_bytes: int) -> bool:
        """Say whether a GPU has room for them, with ``most_bytes`` of shared memory in a block."""
        return (
            self.shared_bytes <= most_bytes
            and self.sums <= MOST_SUMS
            and self.warps <= MOST_WARPS
            and sum(self.copies) <= MOST_COPIES
            and self.slabs % self.warp_slabs == 0
        )


SMALLEST_TILES = MmaTiles(
    rows=1, blocks=1, warp_rows=1, warp_blocks=1, warp_slabs=1, slabs=1, stages=2
)  # fmt: skip
_CHOICES = ((1, 2, 4), (1, 2), (1, 2, 4, 8), (1, 2, 4), (1, 2, 4, 8), (1, 2, 4, 8), (2, 3, 4))


def all_tiles(rows: int, blocks: int, most_bytes: int) -> Iterator[MmaTiles]:
    """Yield the tiles that fit a GPU, for ``rows`` pixels and ``blocks`` blocks of channels.

    Those are left out of which half, or a block of channels, would be past the last.

    Parameters
    ----------
    most_bytes
        Of shared memory, that a block may have.
    """
    sixteens = -(-rows // MMA_ROWS)
    for tiles in _fitting(most_bytes):
        if tiles.pixels // MMA_ROWS < 2 * sixteens and tiles.channel_blocks <= blocks:
            yield tiles


@cache
def _fitting(most_bytes: int) -> tuple[MmaTiles, ...]:
    """Return the tiles that fit a GPU: the same for every product, needed for every point."""
    return tuple(tiles for tiles in map(_tiles, product(*_CHOICES)) if tiles.fits(most_bytes))


_AXES = tuple(field.name for field in fields(MmaTiles))


def _tiles(numbers: Iterable[int]) -> MmaTiles:
    return MmaTiles(**dict(zip(_AXES, numbers, strict=True)))


def _numbers(tiles: MmaTiles) -> tuple[int, ...]:
    return tuple(getattr(tiles, axis) for axis in _AXES)


def sampled(sch: Schedule, rows: int, blocks: int, most_bytes: int) -> MmaTiles:
    """Return some of ``all_tiles`` that MetaSchedule samples, one number after the other."""
    left = [_numbers(tiles) for tiles in all_tiles(rows, blocks, most_bytes)]
    for axis in range(len(_CHOICES)):
        options = sorted({tiles[axis] for tiles in left})
        chosen = sch.sample_categorical(options, [1 / len(options)] * len(options))
        left = [tiles for tiles in left if tiles[axis] == int(sch.get(chosen))]
    (numbers,) = left
    return _tiles(numbers)
