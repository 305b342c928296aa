"""Deformable sampling of an image on a CPU: the loops of ``schedules.bodies.sample2d``.

Where a block of y lies within one tap, one group and one part of the channels (annotation run = 1):

    p:n p:group,tap p:oh    corners, weights of a row of y        4 of each place, in L1
                            c/b  ow  v:lanes                      4 loads, 1 product, 3 fma

else a scalar gather of each element, after the corners and weights of the whole image.
"""

from __future__ import annotations

from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.target import Target

from schedules.bodies.body import template_blocks
from schedules.bodies.corners import STAGES
from schedules.bodies.sample2d import SAMPLE2D
from schedules.cpu.elementwise import SERIAL_ELEMENTS, extents, on_cpu
from schedules.spec import Sample2d


def default(sch: Schedule, spec: Sample2d, target: Target) -> None:
    """Apply fixed tiles."""
    (block,) = template_blocks(sch)
    if int(sch.get(block).annotations["run"]):
        _apply_blocked(sch, spec, block)
    else:
        _apply_scalar(sch, block)


def _apply_blocked(sch: Schedule, spec: Sample2d, block: SBlockRV) -> None:
    n, column, row, col, lane = sch.get_loops(block)
    parallel = extents(sch, [n, column, row, col, lane]) >= SERIAL_ELEMENTS
    blocks = spec.channels // spec.groups // int(sch.get(lane).extent)
    tap, channels = sch.split(column, [None, blocks])
    sch.reorder(n, tap, row, channels, col, lane)
    for name in STAGES:
        sch.compute_at(sch.get_sblock(name), row)
    sch.vectorize(lane)
    outer = sch.fuse(n, tap, row)
    if parallel:
        sch.parallel(outer)


def _apply_scalar(sch: Schedule, block: SBlockRV) -> None:
    for part in (*(sch.get_sblock(name) for name in STAGES[::-1]), block):
        loops = sch.get_loops(part)
        parallel = extents(sch, loops) >= SERIAL_ELEMENTS
        outer = sch.fuse(*loops[:-1])
        if parallel:
            sch.parallel(outer)


SAMPLE2D_CPU = on_cpu(SAMPLE2D, default, default)
