"""The flavour of every CPU that LLVM knows: int16 products, int32 sums, 16 lanes.

Products of weights of int16 are int32.
"""

from __future__ import annotations

from schedules.cpu.contractions.merged_groups import MERGED, of_merged_groups
from schedules.cpu.dot import PLAIN, PLAIN_WIDE
from schedules.cpu.families import conv2d_stem_template, conv2d_template, dense_template
from schedules.cpu.products.attention import attention_template
from schedules.cpu.products.product import product_template
from schedules.cpu.products.recurrence import recurrence_template

CONV2D_STEM_PLAIN = conv2d_stem_template(PLAIN)
CONV2D_PLAIN = conv2d_template(PLAIN)
CONV2D_MERGED_PLAIN = of_merged_groups(conv2d_template(PLAIN, MERGED))
DENSE_PLAIN = dense_template(PLAIN)
CONV2D_PLAIN_WIDE = conv2d_template(PLAIN_WIDE)
CONV2D_MERGED_PLAIN_WIDE = of_merged_groups(conv2d_template(PLAIN_WIDE, MERGED))
DENSE_PLAIN_WIDE = dense_template(PLAIN_WIDE)
PRODUCT_PLAIN = product_template(PLAIN)
ATTENTION_PLAIN = attention_template(PLAIN)
RECURRENCE_PLAIN = recurrence_template(PLAIN)
