"""CUDA kernel of deformable sampling: one output position per thread, several channel blocks each.

What it computes is in ``schedules.bodies.sample2d``; here are the loops:

    blockIdx.x threadIdx.x    n  group,tap  c/b/8  oh  ow      neighbours in a row: coalesced
      corners, weights        4 of one position, in registers
      8 blocks of channels    4 loads, 1 product, 3 fma a channel; a word stored at once

Where channels are not blocked, or blocks straddle taps, a thread has one element.

Exact:  bit-identical to the specification; elements are independent.
"""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import ExprRV, LoopRV, SBlockRV
from tvm.target import Target

from schedules.bodies.body import template_blocks
from schedules.bodies.corners import STAGES
from schedules.bodies.sample2d import SAMPLE2D
from schedules.cuda.device.devices import refuses_cuda
from schedules.cuda.device_math import for_cuda
from schedules.cuda.elementwise import LANES, THREADS
from schedules.spec import Sample2d
from schedules.template import Layouts, ScheduleTemplate

NAME = "sample2d_cuda"
WARP = 32
CHANNEL_BLOCKS = 8  # of channels that one thread computes for its position


def refuses(spec: Sample2d, target: Target) -> str | None:
    """Say why the template cannot be used, or None."""
    return refuses_cuda(target) or SAMPLE2D.refuses(spec)


def kernel(spec: Sample2d, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    return for_cuda(SAMPLE2D.kernel(spec, layouts))


def default(sch: Schedule, spec: Sample2d, target: Target) -> None:
    """Apply fixed tiles."""
    _apply(sch, spec, None, sampled=False)


def space(sch: Schedule, spec: Sample2d, target: Target) -> None:
    """Apply the same loops; MetaSchedule samples threads and blocks of channels."""
    threads = sch.sample_categorical([64, 128, 256, 512], [0.25] * 4)
    _apply(sch, spec, threads, sampled=True)


def _apply(sch: Schedule, spec: Sample2d, threads: ExprRV | int | None, *, sampled: bool) -> None:
    (block,) = template_blocks(sch)
    sch.unannotate(block, "template")
    sch.annotate(block, "template", NAME)
    words = None
    if int(sch.get(block).annotations["run"]):
        stored = sch.cache_write(block, 0, "local")
        positions, words = _positions(sch, spec, block, sampled)
    else:
        positions = sch.fuse(*sch.get_loops(block))
    threads = _threads(sch, positions) if threads is None else threads
    grid, thread = sch.split(positions, [None, threads])
    sch.bind(grid, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    for name in STAGES:
        stage = sch.get_sblock(name)
        sch.compute_at(stage, thread)
        sch.set_scope(stage, 0, "local")
    if words is not None:
        sch.reverse_compute_at(stored, words, preserve_unit_loops=True)
        sch.vectorize(sch.get_loops(stored)[-1])


def _positions(
    sch: Schedule, spec: Sample2d, block: SBlockRV, sampled: bool
) -> tuple[LoopRV, LoopRV]:
    """Return the loop over positions, and that over the words which a thread stores one by one."""
    n, column, row, col, lane = sch.get_loops(block)
    blocks = spec.channels // spec.groups // int(sch.get(lane).extent)
    tap, channels = sch.split(column, [None, blocks])
    tiles = [blocks // divisor(blocks), divisor(blocks)]
    if sampled:
        tiles = sch.sample_perfect_tile(channels, n=2, max_innermost_factor=2 * CHANNEL_BLOCKS)
    outer, inner = sch.split(channels, tiles)
    words, lane = sch.split(lane, [None, LANES])
    sch.reorder(n, tap, outer, row, col, inner, words, lane)
    return sch.fuse(n, tap, outer, row, col), words


def _threads(sch: Schedule, positions: LoopRV) -> int:
    """Return the most threads that divide the positions, if these are warps, else ``THREADS``.

    Without a rest TVM sees that a thread looks at one position, and keeps its corners in registers.
    """
    extent = sch.get(positions).extent
    count = int(extent) if isinstance(extent, tirx.IntImm) else 1
    return next((size for size in range(THREADS, 0, -WARP) if count % size == 0), THREADS)


def divisor(blocks: int) -> int:
    """Return the largest number up to ``CHANNEL_BLOCKS`` that divides ``blocks``."""
    return max(size for size in range(1, CHANNEL_BLOCKS + 1) if blocks % size == 0)


SAMPLE2D_CUDA = ScheduleTemplate(
    name=NAME,
    kind="sample2d",
    refuses=refuses,
    layouts=SAMPLE2D.layouts,
    kernel=kernel,
    default=default,
    space=space,
)
