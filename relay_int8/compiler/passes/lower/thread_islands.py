"""Give the kernels of float islands to threads, on a GPU.

    Before:  for a: for b: y[a, b] = f(x)
    After:   blockIdx.x, threadIdx.x over ab: y[a, b] = f(x)

Place:  after ScheduleKernels, on GPUs; kernels of a template are scheduled already.
Exact:  sums are rounded in another order than on a CPU; all else is computed element by element.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import IRModule, tirx
from tvm.s_tir import SBlock, Schedule, dlight
from tvm.s_tir.schedule import SBlockRV
from tvm.target import Target

RULES = (dlight.gpu.Reduction, dlight.gpu.GeneralReduction)
"""TVM's, for sums of rows; what none of them takes has an element a thread."""
THREADS = 256


@tvm.transform.module_pass(opt_level=0, name="ThreadIslands")
class ThreadIslands:
    """Give the kernels of float islands to threads, on a GPU."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with such kernels bound to threads; ``mod`` itself is left alone."""
        tried = (_Tried(rule()) for rule in RULES)
        rules = (_Bound(), *tried, dlight.gpu.Fallback(), _Outermost())
        result: IRModule = dlight.ApplyDefaultSchedule(*rules)(mod.clone())
        return result


class _Bound:
    """A kernel that TVM writes for the threads of a GPU, such as a scatter, as it is."""

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> Schedule | None:
        """Return the kernel, or None where it has no threads."""
        keys: set[str] = set()
        tvm_ffi.structural_walk(func.body, (tirx.AttrStmt, lambda found: keys.add(found.attr_key)))
        return Schedule(func) if "thread_extent" in keys else None


class _Tried:
    """A rule that may fail: TVM 0.27's give up by an assertion where windows overlap."""

    def __init__(self, rule: dlight.ScheduleRule) -> None:
        self._rule = rule

    def apply(
        self, func: tirx.PrimFunc, target: Target, tunable: bool
    ) -> Schedule | list[Schedule] | None:
        """Return the rule's schedule, or None where it has none; ``func`` is left alone."""
        try:
            found: Schedule | list[Schedule] | None = self._rule.apply(func, target, tunable)
        except (AssertionError, RuntimeError):
            return None
        return found


class _Outermost:
    """An element of an outermost block for a thread, blocks in it in order.

    RoiAlign has such: how many points it reads for an element depends on values, which TVM's rules
    do not take.
    """

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> Schedule | None:
        """Return the schedule, or None where a block is no loop over elements."""
        sch = Schedule(func)
        blocks = sch.get_child_blocks(sch.get_sblock("root"))
        if not all(_has_elements(sch, block) for block in blocks):
            return None
        for block in blocks:
            grid, thread = sch.split(sch.fuse(*sch.get_loops(block)), [None, THREADS])
            sch.bind(grid, "blockIdx.x")
            sch.bind(thread, "threadIdx.x")
        return sch


def _has_elements(sch: Schedule, block: SBlockRV) -> bool:
    """Say whether a block is computed for each element by itself, in loops without threads."""
    found: SBlock = sch.get(block)
    loops = [sch.get(loop) for loop in sch.get_loops(block)]
    is_spatial = all(int(axis.iter_type) == tirx.IterVar.DataPar for axis in found.iter_vars)
    is_bound = any(loop.thread_binding is not None for loop in loops)
    return bool(loops) and is_spatial and not is_bound
