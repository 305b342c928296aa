"""Depthwise convolution, one lane a channel, on any LLVM target: int32 or float32 lanes.

What all depthwise kernels share is here: how the horizontal taps of a window fall into vectors.
An instruction that sums ``width`` neighbouring pixels a lane sees a row of the kernel as a dense
run of pixels, cut every ``width``; weights between dilated taps and past the last are zero. What is
left of the last cut gives room for further output pixels: these are the phases of a window, which
read the same pixels and other weights.

    3 taps, width 4, stride 1:  pixels 0 1 2 3   phase 0: w0 w1 w2 0   phase 1: 0 w0 w1 w2

Loops: see ``schedules.cpu.windows.window_tiles``.
Exact: int32 sums; float32 by fma in ascending order of (row, column), from the bias on.
"""

from __future__ import annotations

import numpy as np
from tvm.target import Target

from schedules.bodies.epilogue import type_refusal
from schedules.cpu.lanes import F32_LANES, PLAIN_LANES, PLAIN_WIDE_LANES, Lanes
from schedules.cpu.tiles.conv_arguments import LANES, channel_blocks
from schedules.cpu.windows.window_kernel import Tap, WindowKernel
from schedules.cpu.windows.window_template import window_template
from schedules.spec import Conv2d
from schedules.template import ScheduleTemplate

MAX_TAPS = 128  # vectors of weights a window may read: its taps are all unrolled


def refuses(lanes: Lanes, spec: Conv2d, target: Target) -> str | None:
    """Say why ``spec`` cannot be computed by ``lanes`` on ``target``, or None."""
    dot = lanes.dot
    refusal = dot.refuses(spec.x, target) or type_refusal(spec, weights=dot.weights)
    if refusal:
        return refusal
    channels = (spec.groups, spec.in_channels, spec.out_channels)
    if len(set(channels)) > 1:
        return "groups {}, in_channels {} and out_channels {} are not all equal".format(*channels)
    taps = len(windows_of(spec, dot.width)[0])
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


def pack_taps(lanes: Lanes, spec: Conv2d, weights: np.ndarray) -> np.ndarray:
    """Repack (c, 1, kh, kw) as (c/16, vectors, 16 * width), pixels of a lane side by side."""
    width, blocks = lanes.dot.width, channel_blocks(weights[:, 0])
    taps = [tap for phase in windows_of(spec, width) for tap in phase]
    packed = np.zeros((len(blocks), len(taps), LANES, width), weights.dtype)
    for phase, in_phase in enumerate(windows_of(spec, width)):
        for tap in in_phase:
            for col, pixel in enumerate(_pixels(spec, phase)):
                if tap.col <= pixel < tap.col + width:
                    column = blocks[:, :, tap.row // spec.dilation[0], col]
                    packed[:, tap.vector, :, pixel - tap.col] = column
    return packed.reshape(*packed.shape[:2], -1)


def _transposed(width: int) -> list[int]:
    """Return where the pixels of lane 0, of lane 1, ... lie in neighbouring pixels of 16 lanes."""
    return [pixel * LANES + lane for lane in range(LANES) for pixel in range(width)]


def window_kernel_of(lanes: Lanes, template: str, spec: Conv2d) -> WindowKernel:
    """Return how ``lanes`` compute ``spec``."""
    width = lanes.dot.width
    return WindowKernel(
        template=template,
        lanes=lanes,
        taps=windows_of(spec, width),
        order=lambda _select: _transposed(width),
        pixels=width,
    )


def depthwise_template(lanes: Lanes) -> ScheduleTemplate:
    """Return the depthwise template of one instruction flavour, "depthwise_<flavour>"."""
    return window_template("depthwise", lanes, refuses, window_kernel_of, pack_taps)


DEPTHWISE_PLAIN = depthwise_template(PLAIN_LANES)
DEPTHWISE_PLAIN_WIDE = depthwise_template(PLAIN_WIDE_LANES)
DEPTHWISE_F32 = depthwise_template(F32_LANES)
