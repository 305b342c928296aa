"""Grouped convolution u8 x s8 -> s32 on AVX-512 VNNI: four channels of a group a vpdpbusd.

    x : (n, c/16, h, w, 16)       uint8    a pixel is four quads of channels
    w : (c/16, taps, 16 * 4)      int8     what the quad of a lane's own group is multiplied by

A pixel's quads are spread to the lanes of their groups by one shuffle of dwords, which every tap
and every output pixel of a tile that reads this pixel share.

Loops:  see ``schedules.cpu.strip_tiles``.
Exact:  int32 sums; padding and the bias carry the zero point.
"""

from __future__ import annotations

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
from schedules.x86.shuffles import dot_u8s8, shuffle

WIDTH = 4  # products a lane of vpdpbusd sums


def refuses(spec: Conv2d, target: Target) -> str | None:
    """Say why this template cannot compute ``spec`` on ``target``, or None."""
    if spec.x != "uint8":
        return f"x is {spec.x}; vpdpbusd wants uint8"
    refusal = grouped_refusal(spec, target, WIDTH)
    if refusal is None and not target_has_features("avx512vnni", target):
        return f"target cpu {target.attrs.get('mcpu', 'generic')} lacks avx512vnni"
    return refusal


def kernel(spec: Conv2d, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled PrimFunc."""
    size = group_size(spec)

    def multiply(acc: Expr, x: Expr, w: Expr, select: int) -> Expr:
        return dot_u8s8(acc, shuffle(x, select_order(size, WIDTH, select)), w)

    strip = Strip(
        template=GROUPED_VNNI.name,
        staged="uint8",
        pixels=1,
        taps=taps_of(spec, WIDTH),
        weights=("int8", LANES * WIDTH),
        multiply=multiply,
    )
    return strip_kernel(spec, strip)


def pack(spec: Conv2d, params: Arrays) -> Arrays:
    """Pack weights by quads of a group and fold the zero point of x into the bias."""
    return pack_with(
        pack_groups(params["w"], group_size(spec), WIDTH), fold_zero_point(spec, params)
    )


GROUPED_VNNI = ScheduleTemplate(
    name="grouped_vnni",
    kind="conv2d",
    refuses=refuses,
    layouts=blocked,
    kernel=kernel,
    default=default,
    space=space,
    pack=pack,
    x_types=("uint8",),
)
