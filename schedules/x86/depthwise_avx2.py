"""Depthwise convolution on AVX2: two horizontal taps a vpmaddwd, on x widened to int16.

x : (n, c/16, h, w, 16)       uint8 or int8, int16 in the padded rows
w : (c/16, vectors, 16 * 2)   int16, the two taps of a lane side by side
"""

from __future__ import annotations

from schedules.cpu.windows.depthwise import depthwise_template
from schedules.x86.lanes import AVX2_WIDE_WINDOWS, AVX2_WINDOWS

DEPTHWISE_AVX2 = depthwise_template(AVX2_WINDOWS)
DEPTHWISE_AVX2_WIDE = depthwise_template(AVX2_WIDE_WINDOWS)
