"""Loops of the window kernels: one task pads a few rows and computes a row of register tiles.

Outermost first (p parallel, u unrolled), for tiles of ``rows`` by ``windows``:

    p:n*c*h_o   pad (rows in x)   w_o   u:h_i   u:w_i   window

Tall tiles share most: a row of x serves every row of y that overlaps it, and LLVM finishes one
pixel before the next, so that only weights and shared pixels wait in registers. Tiles need not
divide: windows past the edge are skipped, at the price of a branch each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import ExprRV

from schedules.cpu.tiles.conv_arguments import LANES
from schedules.cpu.windows.window_kernel import BLOCK, PADDED, WindowKernel
from schedules.spec import Conv2d
from schedules.template import ScheduleError

MAX_ROWS = 14
LEAST_SHARED = 4  # rows of a tile; each tile pads and reads the rows around it once more
MAX_STEPS = 160  # multiplications unrolled in a tile; more is slow to compile, and no faster
SERIAL_STEPS = 1 << 12  # vector steps of a kernel; fewer are not worth waking other threads
MAX_PADDED_BYTES = 48 * 1024  # size of the padded rows: about an L1 cache


@dataclass(frozen=True)
class WindowTiles:
    """Rows and windows of one register tile."""

    rows: int | ExprRV
    windows: int | ExprRV


def default_tiles(spec: Conv2d, kernel: WindowKernel, cores: int = 1) -> WindowTiles:
    """Return the tallest tiles, equal in height, that stay within the limits.

    Where rows can be shared evenly among cores they are, see ``schedules.cpu.windows.task_order``.
    """
    height, (reach, _) = spec.out_size[0], kernel.reach
    pixel = LANES * np.dtype(kernel.lanes.staged or spec.x).itemsize
    padded_rows = MAX_PADDED_BYTES // (kernel.padded_width(spec) * pixel)
    fitting = (padded_rows - reach) // spec.strides[0] + 1
    limit = max(1, min(MAX_ROWS, fitting, MAX_STEPS // kernel.vectors))
    count = -(-height // limit)
    shared = -(-count // cores) * cores
    if height % shared == 0 and height // shared >= LEAST_SHARED:
        count = shared
    return WindowTiles(-(-height // count), 1)


def sample_tiles(sch: Schedule, spec: Conv2d, kernel: WindowKernel) -> WindowTiles:
    """Sample tiles with MetaSchedule's instructions."""
    rows = [i for i in (1, 2, 4, 7, 8, 10, 14) if i <= spec.out_size[0]]
    windows = [i for i in (1, 2, 4) if i <= spec.out_size[1] // kernel.phases]
    return WindowTiles(*(sch.sample_categorical(i, [1 / len(i)] * len(i)) for i in (rows, windows)))


def is_parallel(spec: Conv2d, kernel: WindowKernel) -> bool:
    """Say whether a kernel is worth more than one thread."""
    return not isinstance(spec.batch, int) or kernel.steps(spec) >= SERIAL_STEPS


def apply(sch: Schedule, tiles: WindowTiles, *, parallel: bool = True) -> None:
    """Tile, unroll and parallelize; pad what a task reads, in the task."""
    block, padded = sch.get_sblock(BLOCK), sch.get_sblock(PADDED)
    n, c, h, w = sch.get_loops(block)
    if len(sch.get_loops(padded)) != 5:
        raise ScheduleError(f"{PADDED} is in the loops of {BLOCK} already; schedule a kernel once")
    h_o, h_i = sch.split(h, [None, tiles.rows])
    w_o, w_i = sch.split(w, [None, tiles.windows])
    sch.reorder(n, c, h_o, w_o, h_i, w_i)

    task = sch.fuse(n, c, h_o)
    sch.compute_at(padded, task, preserve_unit_loops=True)
    if parallel:
        sch.parallel(task)
    sch.unroll(h_i)
    sch.unroll(w_i)
