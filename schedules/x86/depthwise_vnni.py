"""Depthwise convolution u8 x s8 -> s32 on AVX-512 VNNI: four horizontal taps a vpdpbusd.

    x : (n, c/16, h, w, 16)       uint8    four neighbouring pixels are 64 contiguous bytes
    w : (c/16, vectors, 16 * 4)   int8     the four taps of a lane side by side

The 64 bytes are transposed (pixel, channel) -> (channel, pixel) by one vpermb, which the rows of a
tile share where they overlap, as do the output pixels of a window.
"""

from __future__ import annotations

from schedules.cpu.windows.depthwise import depthwise_template
from schedules.x86.lanes import VNNI_LANES

DEPTHWISE_VNNI = depthwise_template(VNNI_LANES)
