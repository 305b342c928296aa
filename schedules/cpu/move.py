"""Moves on a CPU: loops of ``elementwise``, or tiles in registers where two runs change places."""

from __future__ import annotations

from dataclasses import replace

import tvm_ffi
from tvm import tirx
from tvm.s_tir import SBlock, Schedule
from tvm.target import Target

from schedules.bodies.body import template_blocks
from schedules.bodies.move import MOVE
from schedules.cpu import elementwise, transposition
from schedules.cpu.exchange import matrices
from schedules.layout import LAYOUTS
from schedules.spec import Move
from schedules.spec.text import from_json, to_json
from schedules.template import Layouts, ScheduleTemplate

SPEC, MEMORY = "spec", "memory"  # notes on kernels that could be of tiles
TILED = "tiled"  # a note on those that will be: parts of a register


def _kernel(spec: Move, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel, with what tiles need to know noted where there can be some."""
    func = MOVE.kernel(spec, layouts)
    if matrices(spec, layouts) is None:
        return func
    sch = Schedule(func.with_attr("global_symbol", "main"))
    (block,) = template_blocks(sch)
    sch.annotate(block, SPEC, to_json(spec))
    sch.annotate(block, MEMORY, [layouts.inputs[0].name, layouts.output.name])
    return sch.mod["main"].without_attr("global_symbol")


def _default(sch: Schedule, spec: Move, target: Target) -> None:
    """Take tiles where there are some; else apply fixed loops."""
    (block,) = template_blocks(sch)
    if SPEC in sch.get(block).annotations:
        sch.annotate(block, TILED, transposition.register_parts(target))
    else:
        elementwise.default(sch, spec, target)


def _finish(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Write the tiles that a schedule asks for."""
    blocks: list[SBlock] = []
    tvm_ffi.structural_walk(func.body, (SBlock, blocks.append))
    notes = next((block.annotations for block in blocks if TILED in block.annotations), None)
    if notes is None:
        return func
    spec = from_json(str(notes[SPEC]))
    assert isinstance(spec, Move)
    source, target = (LAYOUTS[str(name)] for name in notes[MEMORY])
    layouts, parts = Layouts(inputs=(source,), output=target), int(notes[TILED])
    tiled = transposition.kernel(spec, layouts, MOVE_CPU.name, parts)
    return tiled.with_attr(dict(func.attrs))


MOVE_CPU: ScheduleTemplate = replace(
    elementwise.on_cpu(MOVE), kernel=_kernel, default=_default, finish=_finish
)
