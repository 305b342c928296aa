"""Moves on a CPU: loops of ``elementwise``, or tiles in registers where two runs change places."""

from __future__ import annotations

from dataclasses import replace

import tvm_ffi
from tvm import tirx
from tvm.s_tir import SBlock, Schedule
from tvm.target import Target
from tvm.target.codegen import target_has_features

from schedules.bodies.body import template_blocks
from schedules.bodies.move import MOVE
from schedules.cpu import elementwise, transposition
from schedules.cpu.exchange import matrices
from schedules.layout import LAYOUTS
from schedules.spec import Move
from schedules.spec.text import from_json, to_json
from schedules.template import Layouts, ScheduleTemplate

FEATURE = "avx512bw"  # registers of 64 bytes, and shuffles of their bytes
SPEC, MEMORY = "spec", "memory"  # notes on kernels that could be of tiles
TILED = "tiled"  # a note on those that will be


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
    """Take tiles where there are some and the CPU can; else apply fixed loops."""
    (block,) = template_blocks(sch)
    if SPEC in sch.get(block).annotations and target_has_features(FEATURE, target):
        sch.annotate(block, TILED, 1)
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
    tiled = transposition.kernel(spec, Layouts(inputs=(source,), output=target), MOVE_CPU.name)
    return tiled.with_attr(dict(func.attrs))


MOVE_CPU: ScheduleTemplate = replace(
    elementwise.on_cpu(MOVE), kernel=_kernel, default=_default, finish=_finish
)
