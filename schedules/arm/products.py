"""Products of two activations, attention and recurrent layers, on the dot products of Arm."""

from __future__ import annotations

from schedules.arm.dots import SDOT, USDOT
from schedules.cpu.products.attention import attention_template
from schedules.cpu.products.product import product_template
from schedules.cpu.products.recurrence import recurrence_template

PRODUCT_USDOT = product_template(USDOT)
PRODUCT_SDOT = product_template(SDOT)
ATTENTION_USDOT = attention_template(USDOT)
ATTENTION_SDOT = attention_template(SDOT)
RECURRENCE_USDOT = recurrence_template(USDOT)
RECURRENCE_SDOT = recurrence_template(SDOT)
