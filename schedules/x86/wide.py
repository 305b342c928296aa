"""Convolution and dense, u8 or s8 x int16 -> s32, on AVX2: weights whose zero point is not 0.

Two products a lane, where vpdpbusd makes four of bytes; without it as many as of weights of int8,
which are widened there.
"""

from __future__ import annotations

from schedules.cpu.depthwise import depthwise_template
from schedules.cpu.strip_template import (
    conv2d_stem_strip_template,
    conv2d_strip_template,
    dense_strip_template,
)
from schedules.x86.dots import AVX2_WIDE
from schedules.x86.lanes import AVX2_WIDE_LANES

CONV2D_STEM_AVX2_WIDE = conv2d_stem_strip_template(AVX2_WIDE)
CONV2D_AVX2_WIDE = conv2d_strip_template(AVX2_WIDE)
DENSE_AVX2_WIDE = dense_strip_template(AVX2_WIDE)
DEPTHWISE_AVX2_WIDE = depthwise_template(AVX2_WIDE_LANES)
