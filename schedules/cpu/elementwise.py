"""Loops of a CPU for kernels of few loads per element, and the templates they make of bodies.

Loops after scheduling, where ``run`` trailing axes of y are read contiguously, see
``schedules.bodies.elementwise``:

    run = all axes    p:flat                    one loop, vectorized by LLVM, with its own tail
    run < all axes    p:outer... o  flat        flat loop over the run; lanes of a block vectorized
    run = 0           p:outer... o  ... lane    scalar gather (layouts differ)
    run = 0, pieces   p:outer... o  ... piece   vectors of a block

Exact:  bit-identical to the specification; elements are independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import ExprRV, LoopRV, SBlockRV
from tvm.target import Target

from schedules.bodies.body import Body, symbolic_axis, template_blocks, template_name
from schedules.spec import Spec
from schedules.template import ScheduleTemplate

SERIAL_ELEMENTS = 16384  # elements of a tensor; waking other threads for fewer does not pay
BLOCKS = (4, 16)  # channels in one block
LONG_RUN = 64  # elements; a shorter inner loop does not pay for the division of a fused index


@dataclass(frozen=True)
class ElementwiseUnrolling:
    """Up to how many steps loops are unrolled before LLVM sees them; None leaves it to LLVM."""

    unroll: int | ExprRV | None = None


def refuses_cpu(target: Target) -> str | None:
    """Say why no kernel of a CPU can be made for ``target``, or None."""
    return None if target.kind.name == "llvm" else f"target is {target.kind.name}, not llvm"


def refuses_kind(spec: Spec, target: Target) -> str | None:
    """Say why these loops cannot compute ``spec`` on ``target``, or None."""
    return refuses_cpu(target) or symbolic_axis(spec)


def default(sch: Schedule, spec: Spec, target: Target) -> None:
    """Apply fixed tiles."""
    for block in template_blocks(sch):
        apply(sch, block, ElementwiseUnrolling())


def space(sch: Schedule, spec: Spec, target: Target) -> None:
    """Apply the same loops; MetaSchedule samples the unrolling."""
    for block in template_blocks(sch):
        apply(
            sch, block, ElementwiseUnrolling(sch.sample_categorical([0, 16, 64, 256], [0.25] * 4))
        )


def on_cpu(
    body: Body,
    default: Callable[[Schedule, Any, Target], None] = default,
    space: Callable[[Schedule, Any, Target], None] = space,
) -> ScheduleTemplate:
    """Return the template that computes ``body`` on a CPU: "<kind>_cpu"."""

    def _refuses(spec: Spec, target: Target) -> str | None:
        return refuses_cpu(target) or body.refuses(spec)

    return ScheduleTemplate(
        name=template_name(body.kind),
        kind=body.kind,
        refuses=_refuses,
        layouts=body.layouts,
        kernel=body.kernel,
        default=default,
        space=space,
    )


def extents(sch: Schedule, loops: list[LoopRV]) -> int:
    """Return how often ``loops`` iterate together; a symbolic extent counts as one."""
    sizes = (sch.get(loop).extent for loop in loops)
    return math.prod(int(size) for size in sizes if isinstance(size, tirx.IntImm))


def apply(sch: Schedule, block: SBlockRV, tiles: ElementwiseUnrolling) -> None:
    """Fuse, parallelize and vectorize the loops of one elementwise block."""
    loops = list(sch.get_loops(block)) or [sch.add_unit_loop(block)]  # a scalar has no loops
    annotations = sch.get(block).annotations
    run = int(annotations["run"])
    if "pieces" in annotations:
        loops[-1:] = sch.split(loops[-1], [None, int(annotations["pieces"])])
        run = 1
    outer = arrange(sch, loops, run)
    if tiles.unroll is not None:
        sch.annotate(outer, "pragma_auto_unroll_max_step", tiles.unroll)


def arrange(sch: Schedule, loops: list[LoopRV], run: int) -> LoopRV:
    """Fuse loops of which the last ``run`` read and write contiguously; return the outermost."""
    is_parallel = extents(sch, loops) >= SERIAL_ELEMENTS
    outer = sch.fuse(*loops) if run == len(loops) else _apply_nested(sch, loops, run)
    if is_parallel:
        sch.parallel(outer)
    return outer


def _apply_nested(sch: Schedule, loops: list[LoopRV], run: int) -> LoopRV:
    """Vectorize the run, fuse the loops to be parallel and return their fused loop."""
    outer, inner = loops[: len(loops) - max(run, 1)], loops[len(loops) - max(run, 1) :]
    if extents(sch, inner) < LONG_RUN and len(outer) > 1:
        outer = outer[:-1]
    if run > 1:
        sch.fuse(*inner)
    elif extents(sch, inner) in BLOCKS:
        # Unrolled gathers of a block become shuffles and one store, and constant lanes vanish.
        (sch.vectorize if run else sch.unroll)(inner[0])
    return sch.fuse(*outer) if len(outer) > 1 else (outer or loops)[0]
