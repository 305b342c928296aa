"""Kernels that compute each element of y from a few elements of the inputs, in any layouts.

    x, ... : logical tensors in their layouts
    y      : every physical element is written; integer lanes past the last channel hold anything,
             float32 ones hold 0

Loops after scheduling, where ``run`` trailing axes of y are read contiguously (block annotation):

    run = all axes    p:flat                    one loop, vectorized by LLVM, with its own tail
    run < all axes    p:outer... o  flat        flat loop over the run; lanes of a block vectorized
    run = 0           p:outer... o  ... lane    scalar gather (layouts differ)

Exact:  bit-identical to the specification; elements are independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import ExprRV, LoopRV, SBlockRV
from tvm.target import Target
from tvm.tirx import Expr

from schedules.expressions import Point, common_suffix, constants, is_ragged, placeholders
from schedules.layout import ROW, Layout
from schedules.spec import Spec
from schedules.template import Layouts, ScheduleError

SERIAL_ELEMENTS = 16384  # below, waking other threads costs more than they save
BLOCKS = (4, 16)  # channels in one block
LONG_RUN = 64  # elements; a shorter inner loop does not pay for the division of a fused index


@dataclass(frozen=True)
class Tiles:
    """Up to how many steps loops are unrolled before LLVM sees them; None leaves it to LLVM."""

    unroll: int | ExprRV | None = None


def refuses_kind(spec: Spec, target: Target) -> str | None:
    """Say why these templates cannot be used on ``target``, or None."""
    if target.kind.name != "llvm":
        return f"target is {target.kind.name}, not llvm"
    for name in (*spec.tensors, "y"):
        symbolic = [not isinstance(size, int) for size in spec.shape(name)]
        if any(symbolic[1:]):
            return f"axis {symbolic.index(True, 1)} of {name} is symbolic; only axis 0 may be"
    return None


def first_layout(spec: Spec, wanted: Layouts) -> Layouts:
    """Take the first input as it comes, every other tensor in the same layout."""
    layout = _fitting(wanted.inputs[0], spec, spec.tensors[0])
    return Layouts(inputs=(layout,) * len(spec.tensors), output=layout)


def any_layouts(spec: Spec, wanted: Layouts) -> Layouts:
    """Read and write whatever is wanted."""
    inputs = zip(wanted.inputs, spec.tensors, strict=True)
    return Layouts(
        inputs=tuple(_fitting(layout, spec, name) for layout, name in inputs),
        output=_fitting(wanted.output, spec, "y"),
    )


def _fitting(layout: Layout, spec: Spec, name: str) -> Layout:
    """Return ``layout`` for an image, row major for what is none."""
    return layout if len(spec.shape(name)) == 4 else ROW


def elementwise_kernel(
    spec: Spec,
    layouts: Layouts,
    template: str,
    value: Callable[[Point], Expr],
    run: int | None = None,
    **sizes: int,
) -> tirx.PrimFunc:
    """Return the PrimFunc that writes ``value`` of each point to y.

    Parameters
    ----------
    run
        Over how many trailing axes of y the inputs are read contiguously or not at all; by
        default what holds for an operator that reads where it writes.
    sizes
        Of the constants that have not their usual one.
    """
    tensors, params = placeholders(spec, layouts), constants(spec, **sizes)
    shape = layouts.output.physical_shape(spec.shape("y"))
    run = common_suffix(spec, layouts) if run is None else run
    padded = is_ragged(layouts.output, spec.shape("y"))
    zeroed = padded and spec.dtype("y") == "float32"
    if zeroed:
        run = min(run, 1)

    def _element(*physical: Expr) -> Expr:
        point = Point(spec, layouts, tensors, params, physical)
        if not (zeroed or (padded and run == 0)):
            return value(point)
        # A run reads lanes that exist in every input; elsewhere the read itself must be guarded.
        choose = tirx.Select if run else tirx.if_then_else
        return choose(
            point.logical[1] < spec.shape("y")[1], value(point), tirx.const(0, spec.dtype("y"))
        )

    name = f"{spec.kind}_y" if spec.kind in params else spec.kind
    y = te.compute(shape, _element, name=name, attrs={"template": template, "run": run})
    inputs = [*tensors.values(), *params.values(), y]
    func = te.create_prim_func(inputs, index_dtype_override="int64")
    return func.without_attr("global_symbol")


def default(sch: Schedule, spec: Spec, target: Target) -> None:
    """Apply fixed tiles."""
    for block in template_blocks(sch):
        apply(sch, block, Tiles())


def space(sch: Schedule, spec: Spec, target: Target) -> None:
    """Apply the same loops; MetaSchedule samples the unrolling."""
    for block in template_blocks(sch):
        apply(sch, block, Tiles(sch.sample_categorical([0, 16, 64, 256], [0.25] * 4)))


def template_blocks(sch: Schedule) -> list[SBlockRV]:
    """Return the blocks of the kernel that carry a template's name."""
    blocks = sch.get_child_blocks(sch.get_sblock("root"))
    found = [block for block in blocks if "template" in sch.get(block).annotations]
    if not found:
        raise ScheduleError("no block carries a template's name; was the kernel scheduled before?")
    return found


def extents(sch: Schedule, loops: list[LoopRV]) -> int:
    """Return how often ``loops`` iterate together; a symbolic extent counts as one."""
    sizes = (sch.get(loop).extent for loop in loops)
    return math.prod(int(size) for size in sizes if isinstance(size, tirx.IntImm))


def apply(sch: Schedule, block: SBlockRV, tiles: Tiles) -> None:
    """Fuse, parallelize and vectorize the loops of one elementwise block."""
    loops = list(sch.get_loops(block))
    run = int(sch.get(block).annotations["run"])
    is_parallel = extents(sch, loops) >= SERIAL_ELEMENTS
    outer = sch.fuse(*loops) if run == len(loops) else _apply_nested(sch, loops, run)
    if is_parallel:
        sch.parallel(outer)
    if tiles.unroll is not None:
        sch.annotate(outer, "pragma_auto_unroll_max_step", tiles.unroll)


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
