"""Moves on a CPU: loops of ``elementwise``, or vectors in registers.

In registers are moves in which two runs of axes change places (``transposition``) and slices that
begin between the blocks of channels (``joined_blocks``).

A pad, slice, shuffle or nearest resize does not change the layout itself if a copy can do that by
tiles in registers: both together take less time than gathering single elements (decision 104).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from schedules.bodies.move import MOVE, contiguous_run
from schedules.cpu.moves import joined_blocks, transposition
from schedules.cpu.moves.exchange import is_copied_by_tiles, matrices
from schedules.cpu.moves.in_registers import Writer, on_cpu_in_registers
from schedules.layout import NCHW16C, ROW
from schedules.spec import Move
from schedules.template import Layouts, ScheduleTemplate

RENAMED = ("copy", "reshape", "transpose")  # moves that say what the axes are, or the layout


def _writer(spec: Move, layouts: Layouts) -> Writer | None:
    if matrices(spec, layouts) is not None:
        return transposition.kernel
    return joined_blocks.kernel if joined_blocks.pieces(spec, layouts) else None


def _layouts(spec: Move, wanted: Layouts) -> Layouts:
    layouts = MOVE.layouts(spec, wanted)
    if spec.move in RENAMED or {*layouts.inputs, layouts.output} != {ROW, NCHW16C}:
        return layouts
    blocks, rows = (Layouts(inputs=(layout,), output=layout) for layout in (NCHW16C, ROW))
    in_vectors = contiguous_run(spec, blocks) or joined_blocks.pieces(spec, blocks)
    if spec.x_shape[1] < NCHW16C.block or not in_vectors:
        return layouts
    # In the output's layout, x is copied in front of the move; in the input's, y behind it.
    copied = {layouts.output: spec.x_shape, layouts.inputs[0]: spec.y_shape}
    least = blocks if prod(copied[NCHW16C][1:]) < 2 * prod(copied[ROW][1:]) else rows
    return least if is_copied_by_tiles(copied[least.output], spec.x, layouts) else layouts


MOVE_CPU: ScheduleTemplate = replace(on_cpu_in_registers(MOVE, _writer), layouts=_layouts)
