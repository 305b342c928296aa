"""Grouped convolution on AVX2: two channels of a group a vpmaddwd, on x widened to int16.

x : (n, c/16, h, w, 16)       uint8 or int8, int16 in the padded rows
w : (c/16, taps, 16 * 2)      int16, what the pair of a lane's own group is multiplied by
"""

from __future__ import annotations

from schedules.cpu.windows.grouped import grouped_template
from schedules.x86.lanes import AVX2_WINDOWS

GROUPED_AVX2 = grouped_template(AVX2_WINDOWS)
