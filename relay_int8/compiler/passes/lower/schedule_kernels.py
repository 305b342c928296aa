"""Schedule every kernel of a template.

    Before:  PrimFunc with the attributes int8.spec and int8.template
    After:   the same PrimFunc, scheduled by its template, with tirx.is_scheduled = True and
             int8.tuned: whether a tuning record said how, or the template's default did

Place:  after AlterLayout.
Exact:  bit-identical; a schedule decides the order of integer sums, nothing else.
"""

from __future__ import annotations

import json

import tvm
from tvm import IRModule, tirx
from tvm.target import Target

from relay_int8.compiler.kernel_library import shared_function
from relay_int8.compiler.tuned_schedules import TunedSchedules
from relay_int8.graph.attributes import LAYOUTS, SPEC, TEMPLATE, TUNED
from schedules.task import Task


@tvm.transform.module_pass(opt_level=0, name="ScheduleKernels")
class ScheduleKernels:
    """Schedule every kernel of a template."""

    def __init__(self, target: Target, records: TunedSchedules | None = None) -> None:
        self._target = target
        self._records = records

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with scheduled kernels; ``mod`` itself is left alone."""
        mod = mod.clone()
        for gvar, func in mod.functions_items():
            if isinstance(func, tirx.PrimFunc) and TEMPLATE in func.attrs:
                mod[gvar] = self._scheduled(func)
        return mod

    def _made(self, func: tirx.PrimFunc, task: Task) -> tirx.PrimFunc | None:
        """Return what AlterLayout made, if it may be scheduled; None: the task makes its own.

        Schedules for GPUs read the sizes of the spec. Open ones are variables of its own there.
        """
        is_open = not all(isinstance(size, int) for size in task.operator.shape("y"))
        if is_open and self._target.kind.name == "cuda":
            return None
        for name in (TEMPLATE, SPEC, LAYOUTS):
            func = func.without_attr(name)
        return func

    def _scheduled(self, func: tirx.PrimFunc) -> tirx.PrimFunc:
        template, spec, layouts = (str(func.attrs[name]) for name in (TEMPLATE, SPEC, LAYOUTS))
        task = Task(template=template, spec=spec, layouts=tuple(json.loads(layouts)))
        attributes = {name: func.attrs[name] for name in (TEMPLATE, SPEC, LAYOUTS)}
        kernel = task.kernel(self._target, made=self._made(func, task))
        sch = self._records.schedule(task, kernel) if self._records else None
        scheduled = (
            shared_function(lambda: kernel.function(kernel.default()), str(self._target), task.key)
            if sch is None
            else kernel.function(sch)
        )
        return scheduled.without_attr("global_symbol").with_attr(
            {**attributes, TUNED: sch is not None, "tirx.is_scheduled": True}
        )
