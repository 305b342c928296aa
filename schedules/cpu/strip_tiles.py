"""Loops of the strip kernels: one task pads a few rows and computes a row of register tiles.

Outermost first (p parallel, u unrolled), for tiles of ``rows`` by ``windows``:

    p:n*c*h_o   pad (rows in x)   w_o   u:h_i   u:w_i   window

Tiles need not divide: windows past the edge are skipped, at the price of a branch each.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import ExprRV
from tvm.target import Target
from tvm.target.codegen import target_has_features
from tvm.tirx import ForKind

from schedules.cpu.strip import BLOCK, PADDED
from schedules.spec import Conv2d
from schedules.template import ScheduleError

MAX_ROWS = 8  # more rows save few loads and make the tasks of small images too few


@dataclass(frozen=True)
class Tiles:
    """Rows and windows of one register tile."""

    rows: int | ExprRV
    windows: int | ExprRV


def registers(target: Target) -> int:
    """Return how many accumulators of 16 lanes fit, beside weights and pixels."""
    if target_has_features("avx512f", target):
        return 16
    return 4 if target_has_features("avx2", target) else 2


def default(sch: Schedule, spec: Conv2d, target: Target) -> None:
    """Apply the tallest tiles that divide the image and fit the registers."""
    height, windows, phases = _extents(sch, spec)
    limit = max(1, registers(target) // phases)
    rows = _divisor(height, min(limit, MAX_ROWS))
    apply(sch, spec, Tiles(rows, _divisor(windows, max(1, limit // (2 * rows)))))


def space(sch: Schedule, spec: Conv2d, target: Target) -> None:
    """Apply the same loops with tiles MetaSchedule samples."""
    height, windows, _ = _extents(sch, spec)
    rows, cols = ([i for i in (1, 2, 3, 4, 5, 7, 8) if i <= n] for n in (height, windows))
    apply(
        sch,
        spec,
        Tiles(
            sch.sample_categorical(rows, [1 / len(rows)] * len(rows)),
            sch.sample_categorical(cols[:4], [1 / len(cols[:4])] * len(cols[:4])),
        ),
    )


def apply(sch: Schedule, spec: Conv2d, tiles: Tiles) -> None:
    """Tile, unroll and parallelize; pad what a task reads, in the task."""
    block, padded = sch.get_sblock(BLOCK), sch.get_sblock(PADDED)
    n, c, h, w = sch.get_loops(block)
    h_o, h_i = sch.split(h, [None, tiles.rows])
    w_o, w_i = sch.split(w, [None, tiles.windows])
    sch.reorder(n, c, h_o, w_o, h_i, w_i)

    task = sch.fuse(n, c, h_o)
    sch.compute_at(padded, task, preserve_unit_loops=True)
    sch.parallel(task)
    sch.unroll(h_i)
    sch.unroll(w_i)


def _extents(sch: Schedule, spec: Conv2d) -> tuple[int, int, int]:
    """Return the output's rows, its windows a row, and the pixels of a window."""
    loops = sch.get_loops(sch.get_sblock(BLOCK))
    if sch.get(loops[0]).kind != ForKind.SERIAL:
        raise ScheduleError(f"{BLOCK} is parallel already; schedule a kernel once")
    height, windows = (int(sch.get(loop).extent) for loop in loops[2:])
    if height != spec.out_size[0] or spec.out_size[1] % windows:
        raise ScheduleError(f"{BLOCK} has {height} rows of {windows} windows; spec is {spec}")
    return height, windows, spec.out_size[1] // windows


def _divisor(extent: int, limit: int) -> int:
    return max(d for d in range(1, min(extent, limit) + 1) if extent % d == 0)
