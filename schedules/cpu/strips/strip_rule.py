"""How much of a contraction a task copies and computes by default, and which tile its sums are.

Costs are counted in cycles of a core that multiplies two registers of int16 a cycle; fitted on
Zen 4 without AVX-512 (decision 98).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm.target import Target

from schedules.cpu.tiles.tile_rule import divisors

COPY_ELEMENTS = 1 << 18  # of a task's copy of x, int16: half of a second cache
COPIED = 0.15  # what an element of the copy takes
WEIGHTS = 0.4  # what a vector of weights takes in a step, beside products
FETCHED = 1.0  # what a vector of weights takes more where a strip reads it first
EPILOGUE = 4.0  # what a vector of results takes
SERIAL_STEPS = 1 << 13  # steps of a kernel; fewer are not worth waking other threads


@dataclass(frozen=True)
class StripTiles:
    """How a kernel is dealt out.

    Parameters
    ----------
    rows
        Rows of y of a strip; of one without rows, its positions.
    parts
        Tasks that share out the channels of a strip.
    columns, blocks
        Of a tile: columns of y, and blocks of 16 channels.
    """

    rows: int
    parts: int
    columns: int
    blocks: int


@dataclass(frozen=True, kw_only=True)
class Extents:
    """Sizes of a contraction.

    Parameters
    ----------
    batch
        Images, each of which has strips of its own.
    rows, columns
        Of y.
    blocks
        Of 16 channels of y.
    group_blocks
        Blocks that read the same channels of x.
    steps
        Of the instruction, for one sum.
    stride, reach
        Rows of x from a row of y to the next, and that one row of y reads.
    row_elements
        Of a row of x, as it is copied.
    flat
        There are no rows, only positions: ``rows`` counts these, a strip is any run of them.
    """

    batch: Any
    rows: int
    columns: int
    blocks: int
    group_blocks: int
    steps: int
    stride: int
    reach: int
    row_elements: int
    flat: bool = False

    @property
    def positions(self) -> int:
        """Positions of y."""
        return self.rows * self.columns

    def tiled(self, strips: StripTiles) -> tuple[int, int]:
        """Return the rows and the columns that the tiles of a strip cover."""
        return (1, strips.rows) if self.flat else (strips.rows, self.columns)

    def strips(self, strips: StripTiles) -> int:
        """Return how many strips an image has; the last begins early, to be whole."""
        return -(-self.rows // strips.rows)

    def copied(self, rows: int) -> int:
        """Return the elements that a strip of ``rows`` copies."""
        return ((rows - 1) * self.stride + self.reach) * self.row_elements

    @property
    def parallel(self) -> bool:
        """Whether a kernel is worth more than one thread."""
        steps = self.steps * self.positions * self.blocks
        return not isinstance(self.batch, int) or self.batch * steps > SERIAL_STEPS


def default_strips(extents: Extents, target: Target, most: int) -> StripTiles:
    """Return the strips of least estimated cost; ``most`` accumulators are in registers."""
    cores = int(target.attrs.get("num-cores", 1)) if extents.parallel else 1
    return min(candidates(extents, most), key=partial(cost, extents, cores))


def sizes(extents: Extents) -> list[int]:
    """Return the rows of strips worth trying, ascending."""
    shares = sorted({-(-extents.rows // count) for count in range(1, extents.rows + 1)})
    fitting = [rows for rows in shares if extents.copied(rows) <= COPY_ELEMENTS]
    return fitting or shares[:1]


def candidates(extents: Extents, most: int) -> Iterator[StripTiles]:
    """Yield what may be tried."""
    for rows in sizes(extents):
        width = rows if extents.flat else extents.columns
        for blocks in divisors(extents.group_blocks):
            for columns in range(1, min(most // blocks, width) + 1):
                for parts in divisors(extents.blocks // blocks):
                    yield StripTiles(rows, parts, columns, blocks)


def cost(extents: Extents, cores: int, strips: StripTiles) -> float:
    """Estimate the cycles of the core that has most tasks; of one image, if n is symbolic."""
    images = extents.batch if isinstance(extents.batch, int) else 1
    sums = strips.columns * strips.blocks
    step = sums + WEIGHTS * strips.blocks
    rows, width = extents.tiled(strips)
    tiles = rows * -(-width // strips.columns)
    groups = extents.blocks // (strips.blocks * strips.parts)
    task = groups * tiles * (step * extents.steps + EPILOGUE * sums)
    task += groups * strips.blocks * extents.steps * FETCHED
    task += COPIED * extents.copied(strips.rows)
    return -(-images * extents.strips(strips) * strips.parts // cores) * task
