"""Float islands: kernels that TVM makes of float operators which no template computes."""

from __future__ import annotations

from collections.abc import Callable

from tvm import IRModule, tirx
from tvm.s_tir import SBlockRealize, Schedule, renew_defs
from tvm.s_tir import ScheduleError as RefusedByTvm
from tvm.s_tir.schedule import SBlockRV

from schedules.template import ScheduleError

SCHEDULED = "tirx.is_scheduled"
REFUSALS = (RefusedByTvm, ScheduleError)
"""What TVM's schedules raise: it finds errors by name, and ours is registered under the same."""


def is_island(func: tirx.PrimFunc) -> bool:
    """Say whether a function is a kernel of TVM's own that is not scheduled yet.

    Calls of TVM's own functions, as of its sorting, have no block around everything.
    """
    has_loops = isinstance(func.body, SBlockRealize) and func.body.block.name_hint == "root"
    return has_loops and not (func.attrs and SCHEDULED in func.attrs)


def rewrite_islands(
    mod: IRModule,
    rewrite: Callable[[tirx.PrimFunc], tirx.PrimFunc],
    belongs: Callable[[tirx.PrimFunc], bool] = is_island,
) -> IRModule:
    """Return the module with each island, or what ``belongs``, rewritten; ``mod`` is left alone."""
    mod = mod.clone()
    for gvar, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and belongs(func):
            mod[gvar] = rewrite(func)
    return mod


def reschedule(func: tirx.PrimFunc, change: Callable[[Schedule, SBlockRV], bool]) -> tirx.PrimFunc:
    """Offer each block of a kernel to ``change``, which says whether it has changed its loops."""
    # A copy: loops that are given to threads change where they are.
    sch = Schedule(renew_defs(func).with_attr("global_symbol", "main"))
    changed = False
    for block in sch.get_child_blocks(sch.get_sblock("root")):
        changed |= change(sch, block)
    return sch.mod["main"].without_attr("global_symbol") if changed else func
