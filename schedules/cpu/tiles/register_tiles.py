"""Loops of the contraction kernels: register tiles of 16-channel blocks by output columns.

Outermost first (p parallel, u unrolled), for tiles of ``blocks`` by ``columns``, ``rows`` a task:

    p:n*h_o*o_o   h_i   w_o   k0  k1  u?:k2  u?:k3   u:o_i   u:w_i   step

A task keeps the weights of its blocks in cache for ``rows`` rows. ``w_o`` and ``k2`` (the columns
of the kernel) are unrolled where a row has edges or a last tile that is narrower: the conditions
then fold, and each tile of the row gets its own code. Tiles of two columns are many, and the last
one lacks one column at most: without edges they are a loop, whose branch costs nothing.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.target import Target

from schedules.cpu.tiles.contraction import DOT, STORE
from schedules.cpu.tiles.prefetch import fetch_ahead
from schedules.cpu.tiles.tile_rule import (
    MOST_BLOCKS,
    ContractionTiles,
    OutputRow,
    Shape,
    default_tiles,
    has_registers,
)
from schedules.template import ScheduleError

UNROLLED_STEPS = 4  # steps of a block of input channels worth unrolling
FEW_COLUMNS = 2  # of a tile; LLVM stores the accumulators of wider ones that may be cut
PARTED = "pragma_loop_partition_hint"  # TVM's: a loop of its own for where likely() conditions hold
SMALL = 1 << 14  # steps of the instruction below which waking threads costs more than it saves


def default(sch: Schedule, target: Target, row: OutputRow, stage: str | None = None) -> None:
    """Apply tiles by rule, see ``schedules.cpu.tiles.tile_rule``."""
    apply(sch, default_tiles(shape_of(sch), target, row), row, stage)


def space(sch: Schedule, target: Target, row: OutputRow, stage: str | None = None) -> None:
    """Apply the same loops with tiles MetaSchedule samples."""
    shape, limit = shape_of(sch), row.accumulators(target)
    _, h, w, o = (sch.get_loops(sch.get_sblock(STORE))[i] for i in (0, 2, 3, 1))
    _, blocks = sch.sample_perfect_tile(o, n=2, max_innermost_factor=min(limit, MOST_BLOCKS))
    _, rows = sch.sample_perfect_tile(h, n=2, max_innermost_factor=64)
    most = min(row.columns, max(1, limit // int(sch.get(blocks))))
    if row.short or row.ragged:
        widths = list(range(1, min(most, shape.columns) + 1))
        columns = sch.sample_categorical(widths, [1 / len(widths)] * len(widths))
    else:
        _, columns = sch.sample_perfect_tile(w, n=2, max_innermost_factor=most)
    apply(sch, ContractionTiles(blocks, columns, rows), row, stage)


def apply(sch: Schedule, tiles: ContractionTiles, row: OutputRow, stage: str | None) -> None:
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
    reduction = _unroll_tile(sch, dot, row)
    if stage is None and _asks_ahead(sch, tiles, shape):
        fetch_ahead(sch, reduction[len(reduction) // 2 - 1], tiles)
    sch.unroll(o_i)
    sch.unroll(w_i)
    columns = int(sch.get(w_i).extent)
    is_cut = int(sch.get(w_o).extent) * columns != shape.columns
    if row.short and (row.edges or (is_cut and columns > FEW_COLUMNS)):
        sch.unroll(w_o)
    if row.parted:
        sch.annotate(w_o, PARTED, 1)


def _asks_ahead(sch: Schedule, tiles: ContractionTiles, shape: Shape) -> bool:
    """Whether tasks ask for the weights of the next one: registers are left, and tiles to do it."""
    blocks, columns, rows = (
        size if isinstance(size, int) else int(sch.get(size))
        for size in (tiles.blocks, tiles.columns, tiles.rows)
    )
    several = rows > 1 or columns < shape.columns
    return several and has_registers(blocks, columns)


def _unroll_tile(sch: Schedule, dot: SBlockRV, row: OutputRow) -> list[LoopRV]:
    """Order "dot" as reduction outside, tile inside; unroll the tile and what is short.

    Returns the loops of the reduction, outermost first.
    """
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
    return order


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
