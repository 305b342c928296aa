"""Schedule every kernel of a template.

    Before:  PrimFunc with the attributes int8.spec and int8.template
    After:   the same PrimFunc, scheduled by its template, with tirx.is_scheduled = True

Place:  after AlterLayout.
Exact:  bit-identical; a schedule decides the order of integer sums, nothing else.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from relay_int8.passes.alter_layout import SPEC, TEMPLATE
from schedules.catalog import TEMPLATES
from schedules.spec import from_json


@tvm.transform.module_pass(opt_level=0, name="ScheduleKernels")
class ScheduleKernels:
    """Schedule every kernel of a template."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with scheduled kernels; ``mod`` itself is left alone."""
        mod = mod.clone()
        for gvar, func in mod.functions_items():
            if isinstance(func, tirx.PrimFunc) and TEMPLATE in func.attrs:
                mod[gvar] = self._scheduled(func)
        return mod

    def _scheduled(self, func: tirx.PrimFunc) -> tirx.PrimFunc:
        template = TEMPLATES[str(func.attrs[TEMPLATE])]
        sch = Schedule(func)
        template.default(sch, from_json(str(func.attrs[SPEC])), self._target)
        return sch.mod["main"].with_attr("tirx.is_scheduled", True)
