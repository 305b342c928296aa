"""Compute chains of float operators element by element, on a CPU.

    Before:  for i: t[i] = 1 + x[i];  for i: y[i] = log(t[i])
    After:   for i: y[i] = log(1 + x[i])

Place:  before WriteSeries, on CPUs: a function that is written out is not copied any more.
Exact:  bit-identical. A product is not brought to a sum: LLVM would fuse the two, on some CPUs.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import IRModule, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from relay_int8.compiler.islands import REFUSALS, reschedule, rewrite_islands
from relay_int8.compiler.reads import loads
from schedules.cpu.elementwise import extents


@tvm.transform.module_pass(opt_level=0, name="InlineIslands")
class InlineIslands:
    """Compute chains of float operators element by element, on a CPU."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with such chains; ``mod`` itself is left alone."""
        return rewrite_islands(mod, lambda func: reschedule(func, _inlined))


def _inlined(sch: Schedule, block: SBlockRV) -> bool:
    """Bring a step of a chain to the next; return whether it is one."""
    if not _is_step(sch, block):
        return False
    try:
        sch.compute_inline(block)
    except REFUSALS:  # it fills a tensor in parts, or reads another element
        return False
    return True


def _is_step(sch: Schedule, block: SBlockRV) -> bool:
    """Say whether each element of a block is read once, by one other, and no sum of products."""
    consumers = sch.get_consumers(block)
    if len(consumers) != 1:
        return False
    read, step = sch.get(consumers[0]), sch.get(block)
    if extents(sch, sch.get_loops(block)) != extents(sch, sch.get_loops(consumers[0])):
        return False
    if len(step.writes) != 1 or not isinstance(step.body, tirx.BufferStore):
        return False
    buffer = step.body.buffer
    reads = [load for load in loads(read.body) if load.source.same_as(buffer)]
    is_product = isinstance(step.body.value, tirx.Mul)
    return len(reads) == 1 and not (is_product and _is_added(read.body, buffer))


def _is_added(code: tirx.Stmt, buffer: tirx.Buffer) -> bool:
    """Say whether a sum or a difference reads ``buffer`` with nothing in between."""
    found = False

    def _note(total: tirx.Add | tirx.Sub) -> None:
        nonlocal found
        terms = (total.a, total.b)
        found |= any(isinstance(t, tvm.ir.TensorLoad) and t.source.same_as(buffer) for t in terms)

    tvm_ffi.structural_walk(code, ((tirx.Add, tirx.Sub), _note))
    return found
