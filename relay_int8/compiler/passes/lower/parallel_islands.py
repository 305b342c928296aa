"""Give the rows of float islands to threads, on a CPU.

    Before:  for a: for b: for c: y[a, b, c] = f(x)
    After:   parallel for ab: for c: y[a, b, c] = f(x)

Place:  after ScheduleIslands, on CPUs; kernels of a template are scheduled already.
Exact:  bit-identical: elements are computed one by one.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, tirx
from tvm.s_tir import SBlockRealize, Schedule, renew_defs
from tvm.s_tir.schedule import LoopRV, SBlockRV

from relay_int8.compiler.passes.lower.schedule_islands import SCHEDULED, SHORT
from schedules.cpu.elementwise import SERIAL_ELEMENTS, extents


@tvm.transform.module_pass(opt_level=0, name="ParallelIslands")
class ParallelIslands:
    """Give the rows of float islands to threads, on a CPU."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with such loops in parallel; ``mod`` itself is left alone."""
        mod = mod.clone()
        for gvar, func in mod.functions_items():
            if isinstance(func, tirx.PrimFunc) and _is_island(func):
                mod[gvar] = _scheduled(func)
        return mod


def _is_island(func: tirx.PrimFunc) -> bool:
    """Say whether TVM has made a kernel of loops, and nobody gave them to threads.

    Calls of TVM's own functions, as of its sorting, have no block around everything.
    """
    has_loops = isinstance(func.body, SBlockRealize) and func.body.block.name_hint == "root"
    return has_loops and not (func.attrs and SCHEDULED in func.attrs)


def _scheduled(func: tirx.PrimFunc) -> tirx.PrimFunc:
    # A copy: loops that are given to threads change where they are.
    sch = Schedule(renew_defs(func).with_attr("global_symbol", "main"))
    changed = False
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        rows = _rows(sch, block)
        if rows:
            sch.parallel(sch.fuse(*rows))
            changed = True
    if not changed:
        return func
    return sch.mod["main"].without_attr("global_symbol")


def _rows(sch: Schedule, block: SBlockRV) -> list[LoopRV]:
    """Return the loops around rows of independent elements; none where threads do not pay."""
    axes, loops = sch.get(block).iter_vars, list(sch.get_loops(block))
    if len(axes) != len(loops) or len(loops) < 2:
        return []
    if any(int(axis.iter_type) != tirx.IterVar.DataPar for axis in axes):
        return []
    if len(sch.get_child_blocks(loops[0])) > 1:  # zeros in front of a sum, in the loops of the sum
        return []
    sizes = [sch.get(loop).extent for loop in loops]
    if not all(isinstance(size, tirx.IntImm) for size in sizes) or int(sizes[-1]) < SHORT:
        return []
    is_large = extents(sch, loops) >= SERIAL_ELEMENTS and extents(sch, loops[:-1]) > 1
    return loops[:-1] if is_large else []
