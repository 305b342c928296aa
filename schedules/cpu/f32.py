"""Products in float32, for calibration and for layers that stay float."""

from __future__ import annotations

from schedules.cpu.dot import F32
from schedules.cpu.families import conv2d_stem_template, conv2d_template, dense_template
from schedules.cpu.products.product import product_template
from schedules.cpu.products.recurrence import recurrence_template

CONV2D_STEM_F32 = conv2d_stem_template(F32)
CONV2D_F32 = conv2d_template(F32)
DENSE_F32 = dense_template(F32)
PRODUCT_F32 = product_template(F32)
RECURRENCE_F32 = recurrence_template(F32)
