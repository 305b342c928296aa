"""Which register tile a contraction kernel gets by default: a rule on shape and target, no table.

Fitted to measurements on Zen 4 and Zen 5 with vpdpbusd (decision 80), rounding by fours to some on
Zen 5 (decision 78); what it trades is the same everywhere. Costs are counted in multiplications of
a vector: on Zen 4 one takes a cycle, on Zen 5 half of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tvm.s_tir.schedule import ExprRV
from tvm.target import Target

from schedules.cpu.dot import LANES, accumulators
from schedules.cpu.tiles.core_figures import CORES, ZEN4, CoreFigures

ACCUMULATOR_BYTES, STACK_BYTES = 64, 1024
MOST_BLOCKS = 8  # streams of weights that the hardware follows
STAGED_ROWS = 4  # rows of a task that share most of the rows it copies
SKIPPING = 1.04  # factor on the cycles of tiles where the last one is cut
MOST_CUT = 2  # columns of a last tile that is cut; with more all tiles took up to twice as long
MOST_PACKED = 16  # steps of the instruction; with more, rounding is a small part of a tile
FETCHED = 20.0  # multiplications that a vector of weights takes from memory unless it was asked for
IDLE = 0.125  # share of the time that cores may wait for the busiest, to have longer tasks


@dataclass(frozen=True)
class ContractionTiles:
    """Extents of a tile: blocks of 16 channels, columns; and rows of a task."""

    blocks: int | ExprRV
    columns: int | ExprRV
    rows: int | ExprRV


@dataclass(frozen=True)
class OutputRow:
    """What the tile rule asks of a row of y.

    Parameters
    ----------
    edges
        Windows reach past its ends.
    short
        It may be unrolled.
    columns
        The most columns of a tile.
    staged
        Cycles, about, to copy what the windows of one row read; 0 where they read x in place.
    ragged
        Tiles need not divide a row that is not short: the last one skips what does not exist.
    packed
        Columns are rounded by fours, see ``schedules.x86.packed_stores``.
    parted
        Tiles whose windows lie inside the image are a loop of their own.
    floats
        It is of float32, whose products have no register of their own.
    """

    edges: bool = False
    short: bool = True
    columns: int = 16
    staged: int = 0
    ragged: bool = False
    packed: bool = False
    parted: bool = False
    floats: bool = False

    def accumulators(self, target: Target) -> int:
        """Return how many accumulators stay in registers."""
        return accumulators(target, lean=self.floats and not self.edges)


@dataclass(frozen=True)
class Shape:
    """Extents of the loops of "dot": n (None if symbolic), o, h, w and the reduction."""

    batch: int | None
    blocks: int
    rows: int
    columns: int
    reduction: tuple[int, ...]

    @property
    def steps(self) -> int:
        """Steps of the instruction for one accumulator."""
        return prod(self.reduction)


def default_tiles(shape: Shape, target: Target, row: OutputRow) -> ContractionTiles:
    """Return the tile of least estimated cost, and rows enough to pay for fetching weights."""
    cores = int(target.attrs.get("num-cores", 1))
    core = _core(target, shape, row)

    def _cost(tile: tuple[int, int]) -> tuple[float, tuple[int, int]]:
        groups = shape.blocks // tile[0]
        tasks = (shape.batch or 1) * shape.rows * groups
        cycles = _cycles(core, shape, *tile, row.packed) + row.staged * groups
        if not has_registers(*tile):
            cycles += FETCHED * shape.blocks * shape.steps / shape.rows
        if not row.short and shape.columns % tile[1]:
            cycles *= SKIPPING
        return cycles * _rounds(tasks, cores) * cores / tasks, tile

    blocks, columns = min(_candidates(shape, row.accumulators(target), row), key=_cost)
    reuse = STAGED_ROWS * shape.columns if row.staged else core.reuse
    return ContractionTiles(blocks, columns, _rows(shape, blocks, cores, reuse))


def has_registers(blocks: int, columns: int) -> bool:
    """Whether TVM keeps the accumulators of a tile on the stack, so that LLVM need not store them.

    Only such tiles can ask for weights ahead, see ``schedules.cpu.tiles.prefetch``.
    """
    return blocks * columns * ACCUMULATOR_BYTES < STACK_BYTES


def _core(target: Target, shape: Shape, row: OutputRow) -> CoreFigures:
    """Return what limits tiles on a processor.

    Tiles of short sums follow each other so closely that they hide latency together: rounded by
    fours, they were fitted on Zen 5 with Zen 4's figures.
    """
    if row.packed and shape.steps <= MOST_PACKED:
        return ZEN4
    return CORES.get(str(target.attrs.get("mcpu")), ZEN4)


def _candidates(shape: Shape, limit: int, row: OutputRow) -> Iterator[tuple[int, int]]:
    """Yield blocks and columns of the tiles that fit ``limit`` accumulators."""
    for blocks in divisors(shape.blocks):
        for columns in range(1, min(limit // blocks, shape.columns, row.columns) + 1):
            rest = shape.columns % columns
            fits = row.short or rest == 0 or (row.ragged and rest <= MOST_CUT)
            if blocks <= MOST_BLOCKS and fits:
                yield blocks, columns


def _cycles(core: CoreFigures, shape: Shape, blocks: int, columns: int, packed: bool) -> float:
    """Estimate what a row of y takes for all channels, with tiles of blocks by columns.

    A short tile waits for the latency of the multiplication, many blocks wait for weights, few
    columns fetch weights often, and only the epilogue of a small tile overlaps with the next tile.
    """
    weights_bytes = blocks * LANES * 4 * shape.steps
    load = next(cost for limit, cost in core.weights.items() if weights_bytes <= limit)
    single_use = core.single_use if blocks == 1 else 0.0
    total, wait = 0.0, 0.0
    if weights_bytes > core.large_bytes:
        wait = core.wait / blocks if has_registers(blocks, columns) else core.unasked
    whole, rest = divmod(shape.columns, columns)
    for width, count in ((columns, whole), (rest, 1 if rest else 0)):
        tile = blocks * width
        loads = blocks * load + width * core.x
        step = max(tile, core.latency, loads) + blocks * load / 20 + wait + single_use
        if packed and shape.steps <= MOST_PACKED and not rest:
            epilogue = blocks * _packed_epilogue(width, tile)
        else:
            epilogue = 1.2 * tile if tile <= core.overlapped else 5.0 * tile
        total += count * (step * shape.steps + epilogue)
    return total * (shape.blocks // blocks)


def _packed_epilogue(columns: int, tile: int) -> float:
    """Estimate the cycles to round columns of a block by fours, in a tile of so many accumulators.

    What is left is rounded one by one. Up to half of the registers the next tile overlaps.
    """
    left = columns % 4
    if tile <= ZEN4.overlapped:
        return 2.6 * (columns - left) + 3.0 * left
    by_fours, one_by_one = (2.6, 4.5) if tile <= 8 else (3.6, 5.0)
    return by_fours * (columns - left) + one_by_one * left


def _rows(shape: Shape, blocks: int, cores: int, reuse: int) -> int:
    """Return the rows of a task: ``reuse`` columns of y, if they leave every core its share."""
    batch, groups = shape.batch or 1, shape.blocks // blocks
    best = 1
    for rows in divisors(shape.rows):
        tasks = batch * groups * (shape.rows // rows)
        if best * shape.columns >= reuse:
            break
        if _rounds(tasks, cores) * cores <= tasks * (1 + IDLE):
            best = rows
    return best


def _rounds(tasks: int, cores: int) -> int:
    """Return how many tasks the busiest core has."""
    return -(-tasks // cores)


def divisors(extent: int) -> list[int]:
    """Return the divisors of ``extent``, ascending."""
    return [d for d in range(1, extent + 1) if extent % d == 0]
