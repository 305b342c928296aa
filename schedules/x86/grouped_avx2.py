"""Grouped convolution on AVX2: two channels of a group a vpmaddwd, on x widened to int16.

    x : (n, c/16, h, w, 16)       uint8 or int8, int16 in the padded rows
    w : (c/16, taps, 16 * 2)      int16, what the pair of a lane's own group is multiplied by

Loops:  see ``schedules.cpu.strip_tiles``.
Exact:  vpmaddwd on int16, as pmaddubsw saturates; padding and the bias carry the zero point.
"""

from __future__ import annotations

import numpy as np
from tvm import tirx
from tvm.target import Target
from tvm.target.codegen import target_has_features
from tvm.tirx import Expr

from schedules.cpu.conv_arguments import LANES, blocked, fold_zero_point, pack_with
from schedules.cpu.grouped import group_size, grouped_refusal, pack_groups, select_order, taps_of
from schedules.cpu.strip import Strip, strip_kernel
from schedules.cpu.strip_tiles import default, space
from schedules.spec import Conv2d
from schedules.template import Arrays, Layouts, ScheduleTemplate
from schedules.x86.shuffles import dot_s16, shuffle

WIDTH = 2  # products a lane of vpmaddwd sums


def refuses(spec: Conv2d, target: Target) -> str | None:
    """Say why this template cannot compute ``spec`` on ``target``, or None."""
    if spec.x == "float32":
        return "x is float32; vpmaddwd wants integers"
    refusal = grouped_refusal(spec, target, WIDTH)
    if refusal is None and not target_has_features("avx2", target):
        return f"target cpu {target.attrs.get('mcpu', 'generic')} lacks avx2"
    return refusal


def kernel(spec: Conv2d, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled PrimFunc."""
    size = group_size(spec)

    def multiply(acc: Expr, x: Expr, w: Expr, select: int) -> Expr:
        return dot_s16(acc, shuffle(x, select_order(size, WIDTH, select)), w)

    strip = Strip(
        template=GROUPED_AVX2.name,
        staged="int16",
        pixels=1,
        taps=taps_of(spec, WIDTH),
        weights=("int16", LANES * WIDTH),
        multiply=multiply,
    )
    return strip_kernel(spec, strip)


def pack(spec: Conv2d, params: Arrays) -> Arrays:
    """Pack weights by pairs of a group, as int16, and fold the zero point of x into the bias."""
    weights = pack_groups(params["w"].astype(np.int16), group_size(spec), WIDTH)
    return pack_with(weights, fold_zero_point(spec, params))


GROUPED_AVX2 = ScheduleTemplate(
    name="grouped_avx2",
    kind="conv2d",
    refuses=refuses,
    layouts=blocked,
    kernel=kernel,
    default=default,
    space=space,
    pack=pack,
    x_types=("uint8", "int8"),
)
