"""Convolution and dense, u8 x s8 -> s32, on Armv8.6 mixed-sign dot products."""

from __future__ import annotations

from schedules.arm.dots import USDOT
from schedules.cpu.contractions.merged_groups import MERGED, of_merged_groups
from schedules.cpu.families import conv2d_stem_template, conv2d_template, dense_template

CONV2D_STEM_USDOT = conv2d_stem_template(USDOT)
CONV2D_USDOT = conv2d_template(USDOT)
CONV2D_MERGED_USDOT = of_merged_groups(conv2d_template(USDOT, MERGED))
DENSE_USDOT = dense_template(USDOT)
