"""Convolution and dense, s8 x s8 -> s32, on Armv8.2 dot products."""

from __future__ import annotations

from schedules.arm.dots import SDOT
from schedules.cpu.contractions.merged_groups import MERGED, of_merged_groups
from schedules.cpu.families import conv2d_stem_template, conv2d_template, dense_template

CONV2D_STEM_SDOT = conv2d_stem_template(SDOT)
CONV2D_SDOT = conv2d_template(SDOT)
CONV2D_MERGED_SDOT = of_merged_groups(conv2d_template(SDOT, MERGED))
DENSE_SDOT = dense_template(SDOT)
