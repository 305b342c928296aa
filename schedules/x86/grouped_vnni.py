"""Grouped convolution u8 x s8 -> s32 on AVX-512 VNNI: four channels of a group a vpdpbusd.

    x : (n, c/16, h, w, 16)       uint8    a pixel is four quads of channels
    w : (c/16, taps, 16 * 4)      int8     what the quad of a lane's own group is multiplied by

A pixel's quads are spread to the lanes of their groups by one shuffle, which every tap and every
output pixel of a tile that reads this pixel share.
"""

from __future__ import annotations

from schedules.cpu.windows.grouped import grouped_template
from schedules.x86.lanes import VNNI_LANES

GROUPED_VNNI = grouped_template(VNNI_LANES)
