"""Sum rows of float islands in vectors on a CPU.

    Before:  for c: for h, w: y[c] += x[h, w, c]          a step through memory for each element
    After:   for h, w: for c: y[c] += x[h, w, c]                 which LLVM vectorizes

    Before:  for c: for h, w: y[c] += x[c, h, w]          each addition waits for the one before
    After:   for c: for hw / 16: for l < 16: part[l] += x[c, 16 hw + l];  y[c] = sum of part

Place:  after AlterLayout and ScheduleKernels, on CPUs; kernels of a template are scheduled already.
Exact:  across rows bit-identical: each element is reduced in the same order. Along rows there are
        16 partial sums, or as many of these as divide a row, which are added in their order.
"""

from __future__ import annotations

import math

import tvm
from tvm import IRModule, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from relay_int8.compiler.islands import REFUSALS, SCHEDULED, reschedule, rewrite_islands

PATTERN, REDUCTION = "op_pattern", 3  # as TVM's AnnotateTIROpPattern has it
SHORT = 16  # elements of a row; shorter rows are not worth being read side by side
LANES = 16  # partial sums along a row
FEW = 4  # lanes, or steps of lanes, that do not pay for adding them up


@tvm.transform.module_pass(opt_level=0, name="ScheduleIslands")
class ScheduleIslands:
    """Sum rows of float islands in vectors on a CPU."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with such loops reordered; ``mod`` itself is left alone."""
        return rewrite_islands(mod, lambda func: reschedule(func, _summed), _is_reduction)


def _is_reduction(func: tirx.PrimFunc) -> bool:
    """Say whether TVM has made a kernel that reduces one tensor, and nobody scheduled it."""
    pattern = func.attrs.get(PATTERN) if func.attrs else None
    return pattern is not None and int(pattern) == REDUCTION and SCHEDULED not in func.attrs


def _summed(sch: Schedule, block: SBlockRV) -> bool:
    """Arrange a reduction across rows or along them; return whether it is one."""
    if (loops := _across_rows(sch, block)) is not None:
        _reorder(sch, block, *loops)
        return True
    row = _along_rows(sch, block)
    return row is not None and _sum_in_lanes(sch, block, *row)


def _across_rows(sch: Schedule, block: SBlockRV) -> tuple[list[LoopRV], LoopRV] | None:
    """Return the loops of a reduction, and that over neighbours of what it reads; or None."""
    realized, loops = sch.get(block), list(sch.get_loops(block))
    axes = realized.iter_vars
    reduced = [int(axis.iter_type) == tirx.IterVar.CommReduce for axis in axes]
    if len(axes) != len(loops) or not any(reduced) or all(reduced):
        return None
    innermost = max(i for i, is_reduced in enumerate(reduced) if not is_reduced)
    extent, inner = sch.get(loops[innermost]).extent, axes[innermost].var
    sources = [region.region[-1].min for region in realized.reads]
    if not isinstance(extent, tirx.IntImm) or int(extent) < SHORT:
        return None
    if not any(inner.same_as(source) for source in sources):
        return None
    if sch.get_producers(block) or sch.get_consumers(block):
        return None
    return [loop for loop, is_reduced in zip(loops, reduced, strict=True) if is_reduced], loops[
        innermost
    ]


def _reorder(sch: Schedule, block: SBlockRV, reduced: list[LoopRV], row: LoopRV) -> None:
    """Reduce row by row."""
    sch.reorder(*reduced, row)
    sch.decompose_reduction(block, reduced[0])


def _along_rows(sch: Schedule, block: SBlockRV) -> tuple[list[LoopRV], int] | None:
    """Return the loops of a reduction of whole rows of one float32 tensor, and lanes; or None."""
    realized, loops = sch.get(block), list(sch.get_loops(block))
    axes, reads = realized.iter_vars, realized.reads
    count = sum(int(axis.iter_type) == tirx.IterVar.CommReduce for axis in axes)
    if len(axes) != len(loops) or not count or len(reads) != 1:
        return None
    source, last = reads[0].source, axes[-count:]
    if any(int(axis.iter_type) != tirx.IterVar.CommReduce for axis in last):
        return None
    if str(source.dtype) != "float32" or len(source.shape) < count:
        return None
    for axis, region, size in zip(
        last, reads[0].region[-count:], source.shape[-count:], strict=True
    ):
        if not isinstance(size, tirx.IntImm) or int(size) != int(axis.dom.extent):
            return None
        if not axis.var.same_as(region.min):
            return None
    elements = math.prod(int(size) for size in source.shape[-count:])
    lanes = math.gcd(elements, LANES)
    return (loops[-count:], lanes) if min(lanes, elements // lanes) >= FEW else None


def _sum_in_lanes(sch: Schedule, block: SBlockRV, reduced: list[LoopRV], lanes: int) -> bool:
    """Reduce a row in ``lanes`` partial results, and then these; return whether TVM can."""
    _, lane = sch.split(sch.fuse(*reduced), [None, lanes])
    try:
        part = sch.rfactor(lane, 0)
    except REFUSALS:  # a reduction of positions, as argmax
        return False
    rows = list(sch.get_loops(block))[:-1]
    if rows:
        sch.compute_at(part, rows[-1])
        lane, step = list(sch.get_loops(part))[-2:]
        sch.reorder(step, lane)
    step, lane = list(sch.get_loops(part))[-2:]
    sch.vectorize(lane)
    sch.decompose_reduction(part, step)
    return True
