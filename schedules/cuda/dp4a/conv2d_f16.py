"""Convolution of float32 in NCHW4c by products of float16, where a user allows it.

Weights take half the bytes; activations stay float32 in memory, see ``schedules.cuda.dp4a.intrin``.

Loops:  those of dp4a, see ``schedules.cuda.dp4a.tiles``; buffers: see ``conv2d``.
Exact:  x and w are rounded to float16; then as float32, products without any rounding.
"""

from __future__ import annotations

from tvm.target import Target

from schedules.bodies.epilogue import type_refusal
from schedules.cuda.device.devices import refuses_f32
from schedules.cuda.dp4a.conv2d import conv2d_template, refuses_groups
from schedules.spec import Conv2d


def refuses(spec: Conv2d, target: Target) -> str | None:
    """Say why the template cannot be used, or None."""
    return refuses_f32(spec.x, target) or type_refusal(spec, half=True) or refuses_groups(spec)


CONV2D_F16_CUDA = conv2d_template("conv2d_f16_cuda", refuses)
