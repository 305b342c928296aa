"""Convolution to six channels or fewer on x86: a lane has a quarter of a sum, or an eighth."""

from __future__ import annotations

from schedules.cpu.contractions.conv2d_narrow import narrow_template
from schedules.cpu.contractions.narrow_tiles import Flavour
from schedules.x86.lanes import AVX2_LANES, VNNI_LANES

VNNI_NARROW = Flavour(lanes=VNNI_LANES, sums=24)  # of 32 registers, one each
AVX2_NARROW = Flavour(lanes=AVX2_LANES, sums=6)  # of 16 registers, two each

CONV2D_NARROW_VNNI = narrow_template(VNNI_NARROW)
CONV2D_NARROW_AVX2 = narrow_template(AVX2_NARROW)
