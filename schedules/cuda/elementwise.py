"""Kernels of few loads per element on a GPU: pooling, sums, tables, moves, the ends of a region.

What they compute is that of ``schedules.cpu``; here are the loops:

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
from tvm.s_tir.schedule import LoopRV, SBlockRV
from tvm.target import Target

from schedules.cpu.elementwise import template_blocks
from schedules.cuda.device_math import for_cuda
from schedules.cuda.devices import refuses_cuda
from schedules.spec import Spec
from schedules.template import Layouts, ScheduleTemplate

THREADS = 256
LANES = 4
_ANY_CPU = Target({"kind": "llvm"})


def on_cuda(cpu: ScheduleTemplate) -> ScheduleTemplate:
    """Return the template that computes on a GPU what ``cpu`` does: "<kind>_cuda"."""
    name = f"{cpu.name.removesuffix('_cpu')}_cuda"

    def refuses(spec: Spec, target: Target) -> str | None:
        # What is left of the refusals of ``cpu`` on a CPU is about the spec.
        return refuses_cuda(target) or cpu.refuses(spec, _ANY_CPU)

    def kernel(spec: Spec, layouts: Layouts) -> tirx.PrimFunc:
        return for_cuda(cpu.kernel(spec, layouts))

    return ScheduleTemplate(
        name=name,
        kind=cpu.kind,
        refuses=refuses,
        layouts=cpu.layouts,
        kernel=kernel,
        default=partial(default, name),
        space=partial(space, name),
        pack=cpu.pack,
        x_types=cpu.x_types,
    )


def default(name: str, sch: Schedule, spec: Spec, target: Target) -> None:
    """Apply fixed tiles."""
    apply(sch, name, THREADS)


def space(name: str, sch: Schedule, spec: Spec, target: Target) -> None:
    """Apply the same loops; MetaSchedule samples the threads of a block."""
    apply(sch, name, sch.sample_categorical([64, 128, 256, 512], [0.25] * 4))


def apply(sch: Schedule, name: str, threads: object) -> None:
    """Share out the elements of y; keep what leads to them in registers."""
    (block,) = template_blocks(sch)
    sch.unannotate(block, "template")
    sch.annotate(block, "template", name)
    windows = sch.get_producers(block)
    spatial, window = _loops(sch, block)
    is_vector = _lanes_of(sch, spatial[-1])
    stored = sch.cache_write(block, 0, "local") if is_vector else None

    own = [spatial.pop()] if is_vector else []
    if own and int(sch.get(own[0]).extent) > LANES:
        last, own[0] = sch.split(own[0], [None, LANES])
        spatial.append(last)
    elements = sch.fuse(*spatial) if spatial else sch.add_unit_loop(own[0])
    grid, thread = sch.split(elements, [None, threads])
    sch.bind(grid, "blockIdx.x")
    sch.bind(thread, "threadIdx.x")
    if stored is not None:
        sch.reverse_compute_at(stored, thread, preserve_unit_loops=True)
        sch.vectorize(sch.get_loops(stored)[-1])
    for producer in windows:
        sch.set_scope(producer, 0, "local")
        sch.compute_at(producer, thread, preserve_unit_loops=True)
        _reduce(sch, producer)
    if window:
        sch.reorder(*window, *own)
        sch.decompose_reduction(block, window[0])


def _loops(sch: Schedule, block: SBlockRV) -> tuple[list[LoopRV], list[LoopRV]]:
    """Return the loops of a block over y, and those over a window."""
    loops = list(sch.get_loops(block))
    axes = sch.get(block).iter_vars
    count = sum(int(axis.iter_type) == tirx.IterVar.CommReduce for axis in axes)
    return loops[: len(loops) - count], loops[len(loops) - count :]


def _lanes_of(sch: Schedule, loop: LoopRV) -> bool:
    """Say whether a loop can be cut into groups of four."""
    extent = sch.get(loop).extent
    return isinstance(extent, tirx.IntImm) and int(extent) % LANES == 0


def _reduce(sch: Schedule, block: SBlockRV) -> None:
    """Sum a window in registers: its taps outside, the four elements inside."""
    axes = sch.get(block).iter_vars
    count = sum(int(axis.iter_type) == tirx.IterVar.CommReduce for axis in axes)
    if not count:
        return
    loops = sch.get_loops(block)
    own, window = loops[2:-count], loops[-count:]
    sch.reorder(*window, *own)
    sch.decompose_reduction(block, window[0])
