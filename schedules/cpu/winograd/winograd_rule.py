"""How the tiles of a Winograd convolution are dealt out, and when it takes less time than products.

Costs are counted in multiplications of a vector, as in ``schedules.cpu.tiles.tile_rule``; fitted on
Zen 5 (decision 88).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from schedules.bodies.toom_cook import OUTPUTS, POINTS, TAPS
from schedules.cpu.dot import LANES
from schedules.spec import Conv2d

STRIP_BYTES = 2 << 20  # of a strip's pixels at all points, and of its sums
TALLEST = 7  # tiles that are multiplied at once: 14 sums in registers, with two blocks
SHORTEST = 5  # fewer tiles do not hide the latency of a multiplication
READ, WRITTEN = 13.0, 20.0  # what a tile costs beside products, for each channel of x and of y
FETCHED, WAITED = 24.0, 4.0  # what a vector of weights takes from memory, and what is never hidden
GAIN = 1.2  # times as fast as direct products, at least: weights take 8 times the memory


@dataclass(frozen=True)
class Strips:
    """Neighbouring tiles that a task transforms: ``size`` of them, ``rows`` multiplied at once."""

    size: int
    rows: int


@dataclass(frozen=True)
class Tiling:
    """The tiles of 4 by 4 outputs of one image.

    With a dilation of d, outputs d rows apart are those of a convolution without one: tiles take
    every d-th row, those of the d parts turn by turn. Columns are alike.

    Parameters
    ----------
    down, across
        How many tiles there are; the last of each part may reach past the image.
    channels, out_blocks
        Input channels, a multiple of 16; blocks of 16 output channels.
    """

    down: int
    across: int
    channels: int
    out_blocks: int

    @classmethod
    def of(cls, spec: Conv2d) -> Tiling:
        """Return the tiles of a convolution."""
        down, across = (
            step * -(-size // (step * OUTPUTS))
            for size, step in zip(spec.out_size, spec.dilation, strict=True)
        )
        channels = -(-spec.in_channels // LANES) * LANES
        return cls(down, across, channels, -(-spec.out_channels // LANES))

    @cached_property
    def count(self) -> int:
        """How many tiles there are."""
        return self.down * self.across

    @property
    def blocks(self) -> int:
        """How many blocks of output channels share what is read of x."""
        return 2 if self.out_blocks % 2 == 0 else 1

    @property
    def pairs(self) -> int:
        """How many steps of two channels a sum has."""
        return self.channels // 2

    def strips(self, size: int) -> int:
        """Return how many strips of ``size`` an image has; the last begins early, to be whole."""
        return -(-self.count // size)


def default_strips(tiling: Tiling, cores: int, tallest: int = TALLEST) -> Strips:
    """Return the strips of least estimated cost on so many cores.

    ``tallest`` is how many tiles by ``tiling.blocks`` blocks have their sums in registers.
    """
    return min(_candidates(tiling, tallest), key=lambda strips: cost(tiling, strips, cores))


def sizes(tiling: Tiling) -> list[int]:
    """Return the sizes of strips worth trying, ascending."""
    tile_bytes = POINTS**2 * (2 * tiling.channels + 4 * LANES * tiling.blocks)
    most = min(tiling.count, max(TALLEST, STRIP_BYTES // tile_bytes))
    shares = {-(-tiling.count // strips) for strips in range(1, tiling.count + 1)}
    return sorted(size for size in shares if size <= most and size >= min(most, SHORTEST))


def _candidates(tiling: Tiling, tallest: int) -> Iterator[Strips]:
    for size in sizes(tiling):
        for rows in range(min(size, SHORTEST, tallest), min(size, tallest) + 1):
            yield Strips(size, rows)


def cost(tiling: Tiling, strips: Strips, cores: int) -> float:
    """Estimate the time of an image: of the core that has most strips."""
    tall = -(-strips.size // strips.rows) * strips.rows
    vectors = POINTS**2 * tiling.pairs * tiling.out_blocks
    multiplied = vectors * (max(tall, FETCHED) + WAITED)
    moved = strips.size * (READ * tiling.channels + WRITTEN * LANES * tiling.out_blocks)
    busiest = -(-tiling.strips(strips.size) // cores)
    return busiest * (multiplied + moved)


def gains(spec: Conv2d, width: int, tallest: int = TALLEST) -> bool:
    """Whether an image is estimated to take clearly less time than by direct products.

    ``width`` is how many of these an instruction sums into a lane, where it sums two of int16.
    """
    tiling = Tiling.of(spec)
    direct = replace(spec, batch=1).multiplications / (width * LANES)
    return direct >= GAIN * cost(tiling, default_strips(tiling, 1, tallest), 1)


def is_exact(spec: Conv2d) -> bool:
    """Whether every sum is less than 2^29, see ``schedules.bodies.toom_cook``."""
    return 255 * 128 * TAPS**2 * spec.in_channels < 1 << 29
