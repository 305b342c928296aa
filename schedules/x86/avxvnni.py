"""Convolution and dense, u8 x s8 -> s32, on AVX-VNNI: vpdpbusd without AVX-512."""

from __future__ import annotations

from schedules.cpu.contractions.merged_groups import MERGED, of_merged_groups
from schedules.cpu.families import conv2d_stem_template, conv2d_template, dense_template
from schedules.x86.dots import AVXVNNI

CONV2D_STEM_AVXVNNI = conv2d_stem_template(AVXVNNI)
CONV2D_AVXVNNI = conv2d_template(AVXVNNI)
CONV2D_MERGED_AVXVNNI = of_merged_groups(conv2d_template(AVXVNNI, MERGED))
DENSE_AVXVNNI = dense_template(AVXVNNI)
