"""Loops of the contraction kernels: register tiles of 16-channel blocks by output columns.

Outermost first (p parallel, u unrolled), for tiles of ``blocks`` by ``columns``, ``rows`` a task:

    p:n*h_o*o_o   h_i   w_o   k0  k1  u?:k2  u?:k3   u:o_i   u:w_i   step

A task keeps the weights of its blocks in cache for ``rows`` rows. ``w_o`` and ``k2`` (the columns
of the kernel) are unrolled where a row has edges or a last tile that is narrower: the conditions
then fold, and each tile of the row gets its own code.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import ExprRV, SBlockRV
from tvm.target import Target

from schedules.cpu.contraction import DOT, STORE
from schedules.cpu.dot import LANES, accumulators
from schedules.template import ScheduleError

UNROLLED_STEPS = 4  # steps of a block of input channels worth unrolling
SMALL = 1 << 14  # steps of the instruction below which waking threads costs more than it saves
LATENCY = 4.6  # accumulators that hide the latency of a multiplication
L1_SHARE = 24 << 10  # bytes of weights that stay in the first cache, beside x
L2_SHARE = 256 << 10  # bytes of weights that stay in the second
MOST_BLOCKS = 8  # streams of weights that the hardware follows
STAGED_ROWS = 4  # rows of a task that share most of the rows it copies
REUSE = 64  # output columns, over the rows of a task, that pay for fetching the weights


@dataclass(frozen=True)
class Tiles:
    """Extents of a tile: blocks of 16 channels, columns; and rows of a task."""

    blocks: int | ExprRV
    columns: int | ExprRV
    rows: int | ExprRV


@dataclass(frozen=True)
class Row:
    """What a row of y is like.

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
    """

    edges: bool = False
    short: bool = True
    columns: int = 16
    staged: int = 0


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


def default(sch: Schedule, target: Target, row: Row, stage: str | None = None) -> None:
    """Apply tiles by rule: see :func:`default_tiles`."""
    apply(sch, default_tiles(shape_of(sch), target, row), row, stage)


def space(sch: Schedule, target: Target, row: Row, stage: str | None = None) -> None:
    """Apply the same loops with tiles MetaSchedule samples."""
    shape, limit = shape_of(sch), accumulators(target)
    _, h, w, o = (sch.get_loops(sch.get_sblock(STORE))[i] for i in (0, 2, 3, 1))
    _, blocks = sch.sample_perfect_tile(o, n=2, max_innermost_factor=min(limit, MOST_BLOCKS))
    _, rows = sch.sample_perfect_tile(h, n=2, max_innermost_factor=64)
    most = min(row.columns, max(1, limit // int(sch.get(blocks))))
    if row.short:
        widths = list(range(1, min(most, shape.columns) + 1))
        columns = sch.sample_categorical(widths, [1 / len(widths)] * len(widths))
    else:
        _, columns = sch.sample_perfect_tile(w, n=2, max_innermost_factor=most)
    apply(sch, Tiles(blocks, columns, rows), row, stage)


def default_tiles(shape: Shape, target: Target, row: Row) -> Tiles:
    """Return the tile of least estimated cost, and rows enough to pay for fetching weights."""
    limit = accumulators(target)
    candidates = [
        (blocks, columns)
        for blocks in _divisors(shape.blocks)
        for columns in range(1, min(limit, shape.columns, row.columns) + 1)
        if blocks <= MOST_BLOCKS
        and blocks * columns <= limit
        and (row.short or shape.columns % columns == 0)
    ]
    cores = int(target.attrs.get("num-cores", 1))

    def cost(tile: tuple[int, int]) -> tuple[float, tuple[int, int]]:
        tasks = (shape.batch or 1) * shape.rows * (shape.blocks // tile[0])
        copies = row.staged * (shape.blocks // tile[0])
        return (_cycles(shape, *tile) + copies) * _rounds(tasks, cores) * cores / tasks, tile

    blocks, columns = min(candidates, key=cost)
    reuse = STAGED_ROWS * shape.columns if row.staged else REUSE
    return Tiles(blocks, columns, _rows(shape, blocks, cores, reuse))


def _cycles(shape: Shape, blocks: int, columns: int) -> float:
    """Estimate the cycles of a row of y for all channels, with tiles of blocks by columns.

    Fitted to measurements on Zen 4 with vpdpbusd; what it trades is the same everywhere: short
    tiles wait for the latency of the multiplication, many blocks for weights, few columns load
    weights often, and the epilogue of a large tile does not overlap with the tile after it.
    """
    weights_bytes = blocks * LANES * 4 * shape.steps
    load = 1.0 if weights_bytes <= L1_SHARE else 2.5
    alone = 0.4 if blocks == 1 else 0.0  # x is broadcast for one multiplication only
    far = 2.0 / blocks if weights_bytes > L2_SHARE else 0.0
    total = 0.0
    whole, rest = divmod(shape.columns, columns)
    for width, count in ((columns, whole), (rest, 1 if rest else 0)):
        tile = blocks * width
        step = max(tile, LATENCY, blocks * load + width / 2) + blocks * load / 20 + far + alone
        epilogue = 1.2 * tile if tile <= LATENCY else 5.0 * tile
        total += count * (step * shape.steps + epilogue)
    return total * (shape.blocks // blocks)


def _rows(shape: Shape, blocks: int, cores: int, reuse: int) -> int:
    """Return the rows of a task: ``reuse`` columns of y, if they leave every core its share."""
    batch, groups = shape.batch or 1, shape.blocks // blocks
    best = 1
    for rows in _divisors(shape.rows):
        tasks = batch * groups * (shape.rows // rows)
        if best * shape.columns >= reuse:
            break
        if _rounds(tasks, cores) * cores <= tasks * 1.125:
            best = rows
    return best


def _rounds(tasks: int, cores: int) -> int:
    """Return how many tasks the busiest core has."""
    return -(-tasks // cores)


def apply(sch: Schedule, tiles: Tiles, row: Row, stage: str | None) -> None:
    """Tile, keep accumulators in registers, parallelize."""
    dot, store, shape = sch.get_sblock(DOT), sch.get_sblock(STORE), shape_of(sch)
    n, o, h, w = sch.get_loops(store)
    o_o, o_i = sch.split(o, [None, tiles.blocks])
    h_o, h_i = sch.split(h, [None, tiles.rows])
    w_o, w_i = sch.split(w, [None, tiles.columns])
    sch.reorder(n, h_o, o_o, h_i, w_o, o_i, w_i)

    sch.compute_at(dot, w_o, preserve_unit_loops=True)
    if stage:
        sch.compute_at(sch.get_sblock(stage), o_o, preserve_unit_loops=True)
    task = sch.fuse(n, h_o, o_o)
    if shape.batch is None or shape.steps * shape.blocks * shape.rows * shape.columns > SMALL:
        sch.parallel(task)
    _unroll_tile(sch, dot, row)
    sch.unroll(o_i)
    sch.unroll(w_i)
    ragged = int(sch.get(w_o).extent) * int(sch.get(w_i).extent) != shape.columns
    if row.short and (row.edges or ragged):
        sch.unroll(w_o)


def _unroll_tile(sch: Schedule, dot: SBlockRV, row: Row) -> None:
    """Order "dot" as reduction outside, tile inside; unroll the tile and what is short."""
    n, o, h, w, *reduction = sch.get_loops(dot)[-len(sch.get(dot).iter_vars) :]
    *outer, column, step = reduction
    # Neighbouring columns read the same x: with them innermost it stays in registers.
    order = [*outer, step, column] if row.edges else reduction
    sch.reorder(*order, o, w, n, h)
    zero = sch.decompose_reduction(dot, order[0])
    for loop in (*sch.get_loops(zero)[-4:], o, w):
        sch.unroll(loop)
    if int(sch.get(step).extent) <= UNROLLED_STEPS:
        sch.unroll(step)
    if row.edges:
        sch.unroll(column)


def shape_of(sch: Schedule) -> Shape:
    """Return the extents of a contraction kernel that is not scheduled yet."""
    loops = sch.get_loops(sch.get_sblock(STORE))
    if len(loops) != 4:
        raise ScheduleError(f"{STORE} has {len(loops)} loops, not n, o, h, w; schedule it once")
    extents = [_extent(var.dom.extent) for var in sch.get(sch.get_sblock(DOT)).iter_vars]
    batch, blocks, rows, columns, *reduction = extents
    sizes = [size or 1 for size in (blocks, rows, columns, *reduction)]
    return Shape(batch, sizes[0], sizes[1], sizes[2], tuple(sizes[3:]))


def _extent(extent: Any) -> int | None:
    """Return a constant extent, or None for a symbolic one."""
    return int(extent) if isinstance(extent, tirx.IntImm) else None


def _divisors(extent: int) -> list[int]:
    return [d for d in range(1, extent + 1) if extent % d == 0]
