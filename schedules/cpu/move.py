"""Moves on a CPU: loops of ``elementwise``, or vectors in registers.

In registers are moves in which two runs of axes change places (``transposition``) and slices that
begin between the blocks of channels (``joined_blocks``).
"""

from __future__ import annotations

from schedules.bodies.move import MOVE
from schedules.cpu import joined_blocks, transposition
from schedules.cpu.exchange import matrices
from schedules.cpu.in_registers import Writer, on_cpu_in_registers
from schedules.spec import Move
from schedules.template import Layouts, ScheduleTemplate


def _writer(spec: Move, layouts: Layouts) -> Writer | None:
    if matrices(spec, layouts) is not None:
        return transposition.kernel
    return joined_blocks.kernel if joined_blocks.pieces(spec, layouts) else None


MOVE_CPU: ScheduleTemplate = on_cpu_in_registers(MOVE, _writer)
