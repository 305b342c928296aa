"""The flavours of window kernels on x86: vpdpbusd, and vpmaddwd on padded rows of int16."""

from __future__ import annotations

from dataclasses import replace

from schedules.cpu.lanes import Lanes
from schedules.x86.alternate_lanes import ORDER, in_order
from schedules.x86.dots import AVX2, AVX2_WIDE, VNNI
from schedules.x86.instructions import dot_s16, dot_s16_half, dot_u8s8
from schedules.x86.packed_windows import with_packed_windows

VNNI_LANES = Lanes(dot=VNNI, step=dot_u8s8, weights="int8", finish=with_packed_windows)
AVX2_LANES = Lanes(dot=AVX2, step=dot_s16, staged="int16", weights="int16")
AVX2_WINDOWS = Lanes(
    dot=AVX2,
    step=dot_s16_half,
    staged="int16",
    weights="int16",
    parts=2,
    order=ORDER,
    in_order=in_order,
)
AVX2_WIDE_WINDOWS = replace(AVX2_WINDOWS, dot=AVX2_WIDE)
