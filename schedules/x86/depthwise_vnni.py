"""Depthwise convolution u8 x s8 -> s32 on AVX-512 VNNI: four horizontal taps a vpdpbusd.

    x : (n, c/16, h, w, 16)       uint8    four neighbouring pixels are 64 contiguous bytes
    w : (c/16, vectors, 16 * 4)   int8     the four taps of a lane side by side

The 64 bytes are transposed (pixel, channel) -> (channel, pixel) by one vpermb, which the rows of a
tile share where they overlap, as do the two or more output pixels of a window.

Loops:  see ``schedules.cpu.strip_tiles``; the taps: ``schedules.cpu.depthwise``.
Exact:  int32 sums; padding and the bias carry the zero point.
"""

from __future__ import annotations

from tvm import tirx
from tvm.target import Target
from tvm.target.codegen import target_has_features
from tvm.tirx import Expr

from schedules.cpu.conv_arguments import LANES, blocked, fold_zero_point, pack_with
from schedules.cpu.depthwise import depthwise_refusal, pack_taps, windows_of
from schedules.cpu.strip import Strip, strip_kernel
from schedules.cpu.strip_tiles import default, space
from schedules.spec import Conv2d
from schedules.template import Arrays, Layouts, ScheduleTemplate
from schedules.x86.shuffles import dot_u8s8, shuffle

WIDTH = 4  # products a lane of vpdpbusd sums
TRANSPOSE = [pixel * LANES + lane for lane in range(LANES) for pixel in range(WIDTH)]


def refuses(spec: Conv2d, target: Target) -> str | None:
    """Say why this template cannot compute ``spec`` on ``target``, or None."""
    if spec.x != "uint8":
        return f"x is {spec.x}; vpdpbusd wants uint8"
    refusal = depthwise_refusal(spec, target, WIDTH)
    if refusal is None and not target_has_features("avx512vnni", target):
        return f"target cpu {target.attrs.get('mcpu', 'generic')} lacks avx512vnni"
    return refusal


def kernel(spec: Conv2d, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled PrimFunc."""
    strip = Strip(
        template=DEPTHWISE_VNNI.name,
        staged="uint8",
        pixels=WIDTH,
        taps=windows_of(spec, WIDTH),
        weights=("int8", LANES * WIDTH),
        multiply=_multiply,
    )
    return strip_kernel(spec, strip)


def _multiply(acc: Expr, x: Expr, w: Expr, select: int) -> Expr:
    return dot_u8s8(acc, shuffle(x, TRANSPOSE), w)


def pack(spec: Conv2d, params: Arrays) -> Arrays:
    """Pack weights by four taps and fold the zero point of x into the bias."""
    return pack_with(pack_taps(params["w"], spec, WIDTH), fold_zero_point(spec, params))


DEPTHWISE_VNNI = ScheduleTemplate(
    name="depthwise_vnni",
    kind="conv2d",
    refuses=refuses,
    layouts=blocked,
    kernel=kernel,
    default=default,
    space=space,
    pack=pack,
    x_types=("uint8",),
)
