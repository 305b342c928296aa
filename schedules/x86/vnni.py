"""Convolution and dense, u8 x s8 -> s32, on AVX-512 VNNI: four products a lane by one vpdpbusd."""

from __future__ import annotations

from schedules.cpu.contractions.merged_groups import MERGED, of_merged_groups
from schedules.cpu.families import conv2d_stem_template, conv2d_template, dense_template
from schedules.x86.dots import VNNI

CONV2D_STEM_VNNI = conv2d_stem_template(VNNI)
CONV2D_VNNI = conv2d_template(VNNI)
CONV2D_MERGED_VNNI = of_merged_groups(conv2d_template(VNNI, MERGED))
DENSE_VNNI = dense_template(VNNI)
