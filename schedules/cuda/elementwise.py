"""Kernels of few loads per element on a GPU: pooling, sums, tables, moves, the ends of a region.

What they compute is in ``schedules.bodies``; here are the loops:

    blockIdx.x threadIdx.x    all axes but the last four elements
      window                  pooling only: sums or maxima in registers
      4 elements              computed in registers, stored at once

A last axis that is no multiple of four is not vectorized: a thread has one element.

Exact:  bit-identical to the specification; elements are independent.
"""

from __future__ import annotations

from functools import partial

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import ExprRV, LoopRV, SBlockRV
from tvm.target import Target

from schedules.bodies.body import Body, template_blocks
from schedules.cuda.device.devices import refuses_cuda
from schedules.cuda.device_math import for_cuda
from schedules.spec import Spec
from schedules.template import Layouts, ScheduleTemplate

THREADS = 256
LANES = 4


def on_cuda(body: Body) -> ScheduleTemplate:
    """Return the template that computes ``body`` on a GPU: "<kind>_cuda"."""
    name = f"{body.kind}_cuda"

    def _refuses(spec: Spec, target: Target) -> str | None:
        return refuses_cuda(target) or _empty(spec) or body.refuses(spec)

    def _kernel(spec: Spec, layouts: Layouts) -> tirx.PrimFunc:
        return for_cuda(body.kernel(spec, layouts))

    return ScheduleTemplate(
        name=name,
        kind=body.kind,
        refuses=_refuses,
        layouts=body.layouts,
        kernel=_kernel,
        default=partial(default, name),
        space=partial(space, name),
    )


def _empty(spec: Spec) -> str | None:
    """Say that nothing is to be computed, for which no GPU launches a kernel, or None."""
    shape = spec.shape("y")
    if any(isinstance(extent, int) and extent == 0 for extent in shape):
        return f"it writes no element: its shape is {tuple(shape)}"
    return None


def default(name: str, sch: Schedule, spec: Spec, target: Target) -> None:
    """Apply fixed tiles."""
    apply(sch, name, THREADS)


def space(name: str, sch: Schedule, spec: Spec, target: Target) -> None:
    """Apply the same loops; MetaSchedule samples the threads of a block."""
    apply(sch, name, sch.sample_categorical([64, 128, 256, 512], [0.25] * 4))


def apply(sch: Schedule, name: str, threads: int | ExprRV) -> None:
    """Share out the elements of y; keep what leads to them in registers."""
    (block,) = template_blocks(sch)
    sch.unannotate(block, "template")
    sch.annotate(block, "template", name)
    # The first block decides the loops: those that follow it may have none of their own.
    chain: list[SBlockRV] = [*sch.get_producers(block), block]
    first, *followers = chain
    spatial, window = _loops(sch, first)
    own = []
    if _is_vector(sch, spatial[-1]):
        followers.append(sch.cache_write(block, 0, "local"))
        own = [spatial.pop()]
        if int(sch.get(own[0]).extent) > LANES:
            last, own[0] = sch.split(own[0], [None, LANES])
            spatial.append(last)
    elements = sch.fuse(*spatial) if spatial else sch.add_unit_loop(own[0])
    grid, thread = sch.split(elements, [None, threads])
    sch.bind(grid, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    for follower in followers:
        sch.reverse_compute_at(follower, thread, preserve_unit_loops=True)
    if own:
        sch.vectorize(sch.get_loops(followers[-1])[-1])
    if window:
        sch.reorder(*window, *own)
        sch.decompose_reduction(first, window[0])
    if first is not block:
        sch.set_scope(first, 0, "local")


def _loops(sch: Schedule, block: SBlockRV) -> tuple[list[LoopRV], list[LoopRV]]:
    """Return the loops of a block over y, and those over a window."""
    loops = list(sch.get_loops(block)) or [sch.add_unit_loop(block)]  # a scalar has no loops
    axes = sch.get(block).iter_vars
    count = sum(int(axis.iter_type) == tirx.IterVar.CommReduce for axis in axes)
    return loops[: len(loops) - count], loops[len(loops) - count :]


def _is_vector(sch: Schedule, loop: LoopRV) -> bool:
    """Say whether a loop can be cut into groups of four."""
    extent = sch.get(loop).extent
    return isinstance(extent, tirx.IntImm) and int(extent) % LANES == 0
