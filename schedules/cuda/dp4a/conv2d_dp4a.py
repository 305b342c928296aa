"""Convolution by dp4a, NCHW4c and wider: any kernel, stride, dilation, padding and groups.

Loops:  see ``schedules.cuda.dp4a.tiles``; buffers: see ``schedules.cuda.dp4a.conv2d``.
Exact:  int32 sums, requantized in registers.
"""

from __future__ import annotations

from tvm.target import Target

from schedules.bodies.epilogue import type_refusal
from schedules.cuda.device.devices import refuses_dp4a
from schedules.cuda.dp4a.conv2d import conv2d_template
from schedules.spec import Conv2d


def refuses(spec: Conv2d, target: Target) -> str | None:
    """Say why the template cannot be used, or None."""
    return refuses_dp4a(spec.x, target) or type_refusal(spec)


CONV2D_DP4A = conv2d_template("conv2d_dp4a", refuses)
