"""Max and average pooling on a CPU: the loops of ``schedules.bodies.pool2d``.

Loops after scheduling (p parallel, u unrolled where the window is small, v vectorized):

    p:outer...   ow   zero v:lanes   u:kh u:kw v:lanes   [average: scale v:lanes]

where ``lanes`` are the channels of a block, or all channels of NHWC, or nothing in row major.
"""

from __future__ import annotations

import math

from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.bodies.body import template_blocks
from schedules.bodies.pool2d import POOL2D
from schedules.cpu.elementwise import SERIAL_ELEMENTS, ElementwiseUnrolling, extents, on_cpu
from schedules.spec import Pool2d

UNROLLED_TAPS = 32  # smaller windows are unrolled, so that accumulators stay in registers
MOST_UNROLLED_TAPS = 128  # of larger windows, not even a row: 32 rows of 32 took LLVM 100 s


def default(sch: Schedule, spec: Pool2d, target: Target) -> None:
    """Apply fixed tiles."""
    _apply(sch, spec, ElementwiseUnrolling(UNROLLED_TAPS))


def space(sch: Schedule, spec: Pool2d, target: Target) -> None:
    """Apply the same loops; MetaSchedule samples the unrolling."""
    _apply(
        sch,
        spec,
        ElementwiseUnrolling(sch.sample_categorical([0, 16, UNROLLED_TAPS, 128], [0.25] * 4)),
    )


def _apply(sch: Schedule, spec: Pool2d, tiles: ElementwiseUnrolling) -> None:
    (block,) = template_blocks(sch)
    run = int(sch.get(block).annotations["run"])
    loops = list(sch.get_loops(block))
    spatial = loops[:-2] if spec.reduce == "max" else loops
    outer, col = spatial[: -1 - run], spatial[-1 - run]
    is_parallel = extents(sch, spatial) * math.prod(spec.kernel) >= SERIAL_ELEMENTS

    # Zero and reduce one pixel's lanes at a time, so that they stay in registers.
    window = block
    if spec.reduce == "avg":
        (window,) = sch.get_producers(block)
        sch.compute_at(window, col, preserve_unit_loops=True)
    *lanes, tap_row, tap_col = sch.get_loops(window)[len(outer) + 1 :]
    sch.reorder(tap_row, tap_col, *lanes)
    if math.prod(spec.kernel) <= MOST_UNROLLED_TAPS:
        sch.annotate(tap_row, "pragma_auto_unroll_max_step", tiles.unroll)
    fused = sch.fuse(*outer)
    if is_parallel:
        sch.parallel(fused)

    is_blocked = len(spatial) == 5
    for part in (window, block) if is_blocked and spec.reduce == "avg" else (block,) * is_blocked:
        sch.vectorize(sch.get_loops(part)[-1])
    zero = sch.decompose_reduction(window, tap_row)
    if is_blocked:
        sch.vectorize(sch.get_loops(zero)[-1])


POOL2D_CPU = on_cpu(POOL2D, default, space)
