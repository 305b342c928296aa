"""Kernels that serve tensors of any size, in place of those that know their sizes.

A network that runs a few times takes less time to compile with them: one kernel for all layers of a
kind.
"""

from __future__ import annotations

from tvm.target import Target

from schedules.cpu.f32 import CONV2D_F32
from schedules.cpu.layout_flexible import (
    BINARY_CPU,
    DEQUANTIZE_CPU,
    GELU_CPU,
    RESCALE_CPU,
    SIGMOID_CPU,
)
from schedules.cpu.moves.move import MOVE_CPU
from schedules.cpu.open_size import arithmetic, conv2d_open, pack_open, pool2d_open, unpack_open
from schedules.cpu.open_size.arithmetic import ARITHMETIC_CPU
from schedules.cpu.open_size.conv2d_open import CONV2D_OPEN_F32
from schedules.cpu.open_size.pack_open import PACK_OPEN
from schedules.cpu.open_size.pool2d_open import POOL2D_OPEN_F32
from schedules.cpu.open_size.unpack_open import UNPACK_OPEN
from schedules.cpu.pool2d import POOL2D_CPU
from schedules.cpu.windows.depthwise import DEPTHWISE_F32
from schedules.layout import NCHW16C, ROW
from schedules.spec import (
    Binary,
    Conv2d,
    Dequantize,
    Gelu,
    Move,
    Pool2d,
    Rescale,
    Sigmoid,
    Spec,
)
from schedules.template import Layouts, ScheduleTemplate

_ARITHMETIC = (RESCALE_CPU, BINARY_CPU, SIGMOID_CPU, GELU_CPU)


def of_any_size(
    template: ScheduleTemplate, spec: Spec, layouts: Layouts, target: Target
) -> tuple[ScheduleTemplate, Spec, Layouts]:
    """Return the kernel that computes ``spec`` for tensors of any size, with the same bits.

    It is compiled once for all layers of its kind, and may take longer to run. The kernel itself is
    returned where there is none. Constants are those that ``template`` packs.
    """
    general_template: ScheduleTemplate = template
    general: Spec | None = None
    if template in (CONV2D_F32, DEPTHWISE_F32) and isinstance(spec, Conv2d):
        general_template, general = CONV2D_OPEN_F32, conv2d_open.opened(spec, target)
    elif template is POOL2D_CPU and isinstance(spec, Pool2d):
        general_template, general = POOL2D_OPEN_F32, pool2d_open.opened(spec, layouts)
    elif template is MOVE_CPU and layouts.output == NCHW16C and isinstance(spec, Move):
        general_template, general = PACK_OPEN, pack_open.opened(spec, layouts)
    elif template in (MOVE_CPU, DEQUANTIZE_CPU) and isinstance(spec, Move | Dequantize):
        general_template, general = UNPACK_OPEN, unpack_open.opened(spec, layouts)
    elif template in _ARITHMETIC and isinstance(spec, Rescale | Binary | Sigmoid | Gelu):
        general_template, general = ARITHMETIC_CPU, arithmetic.opened(spec, layouts)
    if general is None:
        return template, spec, layouts
    rows = Layouts(inputs=(ROW,) * len(general.tensors), output=ROW)  # its shapes are memory's
    return general_template, general, rows
