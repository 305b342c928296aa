"""Convolution by dp4a, NCHW4c: every kernel, stride, dilation and padding; groups of whole blocks.

Loops:  see ``schedules.cuda.tiles``; buffers: see ``schedules.cuda.conv2d``.
Exact:  int32 sums, requantized in registers.
"""

from __future__ import annotations

from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cpu.epilogue import type_refusal
from schedules.cuda.conv2d import kernel, layouts, pack, refuses_groups
from schedules.cuda.default_tiles import default_tiles
from schedules.cuda.devices import refuses_dp4a
from schedules.cuda.tiles import apply, sampled
from schedules.spec import Conv2d
from schedules.template import ScheduleTemplate

NAME = "conv2d_dp4a"


def refuses(spec: Conv2d, target: Target) -> str | None:
    """Say why the template cannot be used, or None."""
    return refuses_dp4a(spec.x, target) or type_refusal(spec) or refuses_groups(spec)


def default(sch: Schedule, spec: Conv2d, target: Target) -> None:
    """Apply fixed tiles."""
    apply(sch, default_tiles(sch, spec, target))


def space(sch: Schedule, spec: Conv2d, target: Target) -> None:
    """Apply the same loops with tiles that MetaSchedule samples."""
    apply(sch, sampled(sch))


CONV2D_DP4A = ScheduleTemplate(
    name=NAME,
    kind="conv2d",
    refuses=refuses,
    layouts=layouts,
    kernel=lambda spec, _layouts: kernel(NAME, spec),
    default=default,
    space=space,
    pack=pack,
    x_types=("uint8", "int8"),
)
