"""Depthwise and small-group convolutions u8 x s8 -> s32 on AVX-VNNI: vpdpbusd of eight lanes.

    x : (n, c/16, h, w, 16)       uint8
    w : (c/16, vectors, 16 * 4)   int8, the four taps or channels of a lane side by side

As on AVX-512 VNNI, two registers for each vector: see ``schedules.cpu.windows``.
"""

from __future__ import annotations

from schedules.cpu.lanes import Lanes
from schedules.cpu.windows.depthwise import depthwise_template
from schedules.cpu.windows.grouped import grouped_template
from schedules.x86.dots import AVXVNNI
from schedules.x86.instructions import dot_u8s8_half

AVXVNNI_LANES = Lanes(dot=AVXVNNI, step=dot_u8s8_half, weights="int8", parts=2)
DEPTHWISE_AVXVNNI = depthwise_template(AVXVNNI_LANES)
GROUPED_AVXVNNI = grouped_template(AVXVNNI_LANES)
