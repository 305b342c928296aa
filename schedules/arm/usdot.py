"""Convolution and dense, u8 x s8 -> s32, on Armv8.6 mixed-sign dot products."""

from __future__ import annotations

from schedules.arm.dots import USDOT
from schedules.cpu.families import conv2d_stem_template, conv2d_template, dense_template

CONV2D_STEM_USDOT = conv2d_stem_template(USDOT)
CONV2D_USDOT = conv2d_template(USDOT)
DENSE_USDOT = dense_template(USDOT)
