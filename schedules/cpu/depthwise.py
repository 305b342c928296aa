"""Depthwise convolution, one lane a channel, on any LLVM target: int32 or float32 lanes.

What all depthwise kernels share is here: how the horizontal taps of a window fall into vectors.
An instruction that sums ``width`` neighbouring pixels a lane sees a row of the kernel as a dense
run of pixels, cut every ``width``; weights between dilated taps and past the last are zero. What is
left of the last cut gives room for further output pixels: these are the phases of a window, which
read the same pixels and other weights.

    3 taps, width 4, stride 1:  pixels 0 1 2 3   phase 0: w0 w1 w2 0   phase 1: 0 w0 w1 w2

Loops: see ``schedules.cpu.strip_tiles``.
Exact: int32 sums; float32 by fma in ascending order of (row, column), from the bias on.
"""

from __future__ import annotations

import numpy as np
from tvm import tirx
from tvm.target import Target
from tvm.tirx import Expr

from schedules.cpu.conv_arguments import LANES, blocked, channel_blocks, fold_zero_point, pack_with
from schedules.cpu.epilogue import cast, fma
from schedules.cpu.strip import Strip, Tap, strip_kernel
from schedules.cpu.strip_tiles import default, space
from schedules.spec import Conv2d
from schedules.template import Arrays, Layouts, ScheduleTemplate

MAX_TAPS = 128  # vectors of weights a window may read: its taps are all unrolled


def depthwise_refusal(spec: Conv2d, target: Target, width: int) -> str | None:
    """Say why no depthwise kernel that sums ``width`` pixels a lane can compute ``spec``."""
    if target.kind.name != "llvm":
        return f"target is {target.kind.name}, not llvm"
    channels = (spec.groups, spec.in_channels, spec.out_channels)
    if len(set(channels)) > 1:
        return "groups {}, in_channels {} and out_channels {} are not all equal".format(*channels)
    taps = len(windows_of(spec, width)[0])
    if taps > MAX_TAPS:
        return f"kernel {spec.kernel} makes {taps} taps; the limit is {MAX_TAPS}"
    return None


def windows_of(spec: Conv2d, width: int) -> tuple[tuple[Tap, ...], ...]:
    """Return the taps of each phase, by row and column, where a tap sums ``width`` pixels."""
    vectors = iter(range(spec.kernel[0] * _run(spec) * spec.out_size[1]))
    return tuple(
        tuple(
            Tap(row * spec.dilation[0], cut * width, next(vectors))
            for row in range(spec.kernel[0])
            for cut in _cuts(spec, width, phase)
        )
        for phase in range(_phases(spec, width))
    )


def _run(spec: Conv2d) -> int:
    """Return how many pixels a row of the kernel spans."""
    return spec.dilation[1] * (spec.kernel[1] - 1) + 1


def _phases(spec: Conv2d, width: int) -> int:
    """Return how many output pixels share the pixels of a window: a divisor of the row."""
    room = (-_run(spec) % width) // spec.strides[1] + 1
    return max(count for count in range(1, room + 1) if spec.out_size[1] % count == 0)


def _pixels(spec: Conv2d, phase: int) -> list[int]:
    """Return the pixels of the window under each column of the kernel."""
    return [phase * spec.strides[1] + spec.dilation[1] * col for col in range(spec.kernel[1])]


def _cuts(spec: Conv2d, width: int, phase: int) -> list[int]:
    return sorted({pixel // width for pixel in _pixels(spec, phase)})


def pack_taps(weights: np.ndarray, spec: Conv2d, width: int) -> np.ndarray:
    """Repack (c, 1, kh, kw) as (c/16, vectors, 16 * width), pixels of a lane side by side."""
    blocks = channel_blocks(weights[:, 0])
    taps = [tap for phase in windows_of(spec, width) for tap in phase]
    packed = np.zeros((len(blocks), len(taps), LANES, width), weights.dtype)
    for phase, in_phase in enumerate(windows_of(spec, width)):
        for tap in in_phase:
            for col, pixel in enumerate(_pixels(spec, phase)):
                if tap.col <= pixel < tap.col + width:
                    column = blocks[:, :, tap.row // spec.dilation[0], col]
                    packed[:, tap.vector, :, pixel - tap.col] = column
    return packed.reshape(*packed.shape[:2], -1)


def _multiply_s32(acc: Expr, x: Expr, w: Expr, select: int) -> Expr:
    return acc + cast(x, "int32") * cast(w, "int32")


def _multiply_f32(acc: Expr, x: Expr, w: Expr, select: int) -> Expr:
    return fma(x, w, acc)


def _refuses_plain(spec: Conv2d, target: Target) -> str | None:
    if spec.x == "float32":
        return "x is float32; this kernel sums integers"
    return depthwise_refusal(spec, target, 1)


def _kernel_plain(spec: Conv2d, layouts: Layouts) -> tirx.PrimFunc:
    strip = Strip(
        template=DEPTHWISE_PLAIN.name,
        staged=spec.x,
        pixels=1,
        taps=windows_of(spec, 1),
        weights=("int8", LANES),
        multiply=_multiply_s32,
    )
    return strip_kernel(spec, strip)


def _refuses_f32(spec: Conv2d, target: Target) -> str | None:
    if spec.x != "float32":
        return f"x is {spec.x}; this kernel sums float32"
    return depthwise_refusal(spec, target, 1)


def _kernel_f32(spec: Conv2d, layouts: Layouts) -> tirx.PrimFunc:
    strip = Strip(
        template=DEPTHWISE_F32.name,
        staged="float32",
        pixels=1,
        taps=windows_of(spec, 1),
        weights=("float32", LANES),
        multiply=_multiply_f32,
    )
    return strip_kernel(spec, strip)


def _pack(spec: Conv2d, params: Arrays) -> Arrays:
    return pack_with(pack_taps(params["w"], spec, 1), fold_zero_point(spec, params))


DEPTHWISE_PLAIN = ScheduleTemplate(
    name="depthwise_plain",
    kind="conv2d",
    refuses=_refuses_plain,
    layouts=blocked,
    kernel=_kernel_plain,
    default=default,
    space=space,
    pack=_pack,
    x_types=("uint8", "int8"),
)
DEPTHWISE_F32 = ScheduleTemplate(
    name="depthwise_f32",
    kind="conv2d",
    refuses=_refuses_f32,
    layouts=blocked,
    kernel=_kernel_f32,
    default=default,
    space=space,
    pack=_pack,
    x_types=("float32",),
)
