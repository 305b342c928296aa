"""Templates of moves whose default schedule is vectors in registers, where these can be written.

What is scheduled is the body's loops, which MetaSchedule may search; the default notes the width of
a register instead, and ``finish`` then writes the kernel anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.bodies.body import Body, template_blocks, template_name
from schedules.cpu import elementwise
from schedules.cpu.written_out import SPEC, notes_with
from schedules.layout import LAYOUTS
from schedules.spec.text import from_json, to_json
from schedules.target_features import has_feature
from schedules.template import Layouts, ScheduleTemplate

MEMORY = "memory"  # with SPEC, a note on kernels that can be written in registers: layouts
PARTS = "tiled"  # a note on those that will be: parts of a register

Writer = Callable[[Any, Layouts, str, int], tirx.PrimFunc]


def register_parts(target: Target) -> int:
    """Return how many parts of 16 bytes a register of ``target`` has."""
    if has_feature("avx512bw", target):
        return 4
    return 2 if has_feature("avx2", target) else 1


def on_cpu_in_registers(
    body: Body, writer: Callable[[Any, Layouts], Writer | None]
) -> ScheduleTemplate:
    """Return the template of a CPU for ``body``.

    Parameters
    ----------
    body
        Computes every spec, in loops.
    writer
        ``(spec, layouts)`` -> what writes the kernel in registers, or None where loops are all:
        called with spec, layouts, the template's name and the parts of a register.
    """
    name = template_name(body.kind)

    def _kernel(spec: Any, layouts: Layouts) -> tirx.PrimFunc:
        func = body.kernel(spec, layouts)
        if writer(spec, layouts) is None:
            return func
        sch = Schedule(func.with_attr("global_symbol", "main"))
        (block,) = template_blocks(sch)
        sch.annotate(block, SPEC, to_json(spec))
        memory = [layout.name for layout in (*layouts.inputs, layouts.output)]
        sch.annotate(block, MEMORY, memory)
        return sch.mod["main"].without_attr("global_symbol")

    def _default(sch: Schedule, spec: Any, target: Target) -> None:
        first, *_ = template_blocks(sch)
        if SPEC in sch.get(first).annotations:
            sch.annotate(first, PARTS, register_parts(target))
        else:
            elementwise.default(sch, spec, target)

    def _finish(func: tirx.PrimFunc) -> tirx.PrimFunc:
        notes = notes_with(func, PARTS)
        if notes is None:
            return func
        spec = from_json(str(notes[SPEC]))
        *inputs, output = (LAYOUTS[str(layout)] for layout in notes[MEMORY])
        layouts = Layouts(inputs=tuple(inputs), output=output)
        write = writer(spec, layouts)
        assert write is not None
        return write(spec, layouts, name, int(notes[PARTS])).with_attr(dict(func.attrs))

    loops = elementwise.on_cpu(body)
    return replace(loops, kernel=_kernel, default=_default, finish=_finish)
