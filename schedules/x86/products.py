"""Products of two activations, attention and recurrent layers, on the dot products of x86."""

from __future__ import annotations

from schedules.cpu.products.attention import attention_template
from schedules.cpu.products.product import product_template
from schedules.cpu.products.recurrence import recurrence_template
from schedules.x86.dots import AVX2, AVXVNNI, VNNI

PRODUCT_VNNI = product_template(VNNI)
PRODUCT_AVXVNNI = product_template(AVXVNNI)
PRODUCT_AVX2 = product_template(AVX2)
ATTENTION_VNNI = attention_template(VNNI)
ATTENTION_AVXVNNI = attention_template(AVXVNNI)
ATTENTION_AVX2 = attention_template(AVX2)
RECURRENCE_VNNI = recurrence_template(VNNI)
RECURRENCE_AVXVNNI = recurrence_template(AVXVNNI)
RECURRENCE_AVX2 = recurrence_template(AVX2)
