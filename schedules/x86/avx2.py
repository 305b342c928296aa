"""Convolution and dense, u8 or s8 x s8 -> s32, on AVX2: two widened products a lane by vpmaddwd.

Weights of int16 ("wide") need no widening. Processors with vpdpbusd, which makes four products of
bytes a lane, have no faster instruction for them.
"""

from __future__ import annotations

from schedules.cpu.contractions.merged_groups import MERGED, of_merged_groups
from schedules.cpu.strips.strip_template import (
    conv2d_stem_strip_template,
    conv2d_strip_template,
    dense_strip_template,
)
from schedules.x86.dots import AVX2, AVX2_WIDE

CONV2D_STEM_AVX2 = conv2d_stem_strip_template(AVX2)
CONV2D_AVX2 = conv2d_strip_template(AVX2)
CONV2D_MERGED_AVX2 = of_merged_groups(conv2d_strip_template(AVX2, MERGED))
DENSE_AVX2 = dense_strip_template(AVX2)
CONV2D_STEM_AVX2_WIDE = conv2d_stem_strip_template(AVX2_WIDE)
CONV2D_AVX2_WIDE = conv2d_strip_template(AVX2_WIDE)
CONV2D_MERGED_AVX2_WIDE = of_merged_groups(conv2d_strip_template(AVX2_WIDE, MERGED))
DENSE_AVX2_WIDE = dense_strip_template(AVX2_WIDE)
