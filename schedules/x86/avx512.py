"""Convolution and dense, u8 or s8 x s8 -> s32, on AVX-512 without VNNI: vpmaddwd."""

from __future__ import annotations

from schedules.cpu.families import conv2d_stem_template, conv2d_template, dense_template
from schedules.x86.dots import AVX512

CONV2D_STEM_AVX512 = conv2d_stem_template(AVX512)
CONV2D_AVX512 = conv2d_template(AVX512)
DENSE_AVX512 = dense_template(AVX512)
