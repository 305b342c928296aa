"""Convolution and dense, s8 x s8 -> s32, on Armv8.2 dot products."""

from __future__ import annotations

from schedules.arm.dots import SDOT
from schedules.cpu.families import conv2d_stem_template, conv2d_template, dense_template

CONV2D_STEM_SDOT = conv2d_stem_template(SDOT)
CONV2D_SDOT = conv2d_template(SDOT)
DENSE_SDOT = dense_template(SDOT)
