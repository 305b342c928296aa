"""Grouped convolution of 2, 4 or 8 channels in and out a group, on any LLVM target.

A block of 16 channels holds whole groups, so a pixel's 16 channels are all that its 16 outputs
need: each output channel is a lane, and every input channel of its group is brought there by a
constant shuffle of the pixel. Groups of 16 * k channels are plain convolutions block by block.

    select s brings input channels [s * width, (s + 1) * width) of each lane's own group

Loops: see ``schedules.cpu.windows.window_tiles``.
Exact: int32 sums; float32 by fma in ascending order of (row, column, channel), from the bias on.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from tvm.target import Target

from schedules.bodies.epilogue import type_refusal
from schedules.cpu.lanes import F32_LANES, PLAIN_LANES, Lanes
from schedules.cpu.tiles.conv_arguments import LANES, channel_blocks
from schedules.cpu.windows.window_kernel import Tap, WindowKernel
from schedules.cpu.windows.window_template import window_template
from schedules.spec import Conv2d
from schedules.template import ScheduleTemplate

MAX_TAPS = 256  # multiplications a pixel: all are unrolled
GROUP_SIZES = (2, 4, 8)


def refuses(lanes: Lanes, spec: Conv2d, target: Target) -> str | None:
    """Say why ``spec`` cannot be computed by ``lanes`` on ``target``, or None."""
    refusal = lanes.dot.refuses(spec.x, target) or type_refusal(spec)
    if refusal:
        return refusal
    inputs, outputs = spec.in_channels // spec.groups, spec.out_channels // spec.groups
    if inputs != outputs or inputs not in GROUP_SIZES:
        return f"groups have {inputs} channels in and {outputs} out, not 2, 4 or 8 of both"
    taps = len(taps_of(spec, lanes.dot.width)[0])
    if taps > MAX_TAPS:
        return f"kernel {spec.kernel} makes {taps} taps; the limit is {MAX_TAPS}"
    return None


def group_size(spec: Conv2d) -> int:
    """Return the channels of a group."""
    return spec.in_channels // spec.groups


def taps_of(spec: Conv2d, width: int) -> tuple[tuple[Tap, ...], ...]:
    """Return the taps of the one pixel of a window, by row, column and channel."""
    (rows, cols), selects = spec.kernel, -(-group_size(spec) // width)
    return (
        tuple(
            Tap(
                row * spec.dilation[0],
                col * spec.dilation[1],
                (row * cols + col) * selects + select,
                select,
            )
            for row in range(rows)
            for col in range(cols)
            for select in range(selects)
        ),
    )


def select_order(size: int, width: int, select: int) -> list[int]:
    """Return which channels of a block each lane gets: ``width`` of its own group.

    A group smaller than ``width`` brings its neighbours along, whose weights are zero.
    """
    unit = max(size, width)
    return [lane // unit * unit + select * width + i for lane in range(LANES) for i in range(width)]


def pack_groups(weights: np.ndarray, size: int, width: int) -> np.ndarray:
    """Repack (c, size, kh, kw) as (c/16, kh * kw * selects, 16 * width)."""
    blocks = channel_blocks(weights)
    taps = []
    for select in range(-(-size // width)):
        order = select_order(size, width, select)
        lane = np.arange(LANES * width) // width
        foreign = np.array(order) // size != lane // size
        picked = blocks[:, lane, np.array(order) % size]
        taps.append(np.where(foreign[:, None, None], 0, picked))
    packed = np.stack(taps, axis=1).transpose(0, 3, 4, 1, 2)
    return np.ascontiguousarray(packed.reshape(len(blocks), -1, LANES * width), weights.dtype)


def _kernel_of(lanes: Lanes, template: str, spec: Conv2d) -> WindowKernel:
    width = lanes.dot.width
    return WindowKernel(
        template=template,
        lanes=lanes,
        taps=taps_of(spec, width),
        order=partial(select_order, group_size(spec), width),
    )


def _pack_weights(lanes: Lanes, spec: Conv2d, weights: np.ndarray) -> np.ndarray:
    return pack_groups(weights, group_size(spec), lanes.dot.width)


def grouped_template(lanes: Lanes) -> ScheduleTemplate:
    """Return the grouped template of one instruction flavour, "grouped_<flavour>"."""
    return window_template("grouped", lanes, refuses, _kernel_of, _pack_weights)


GROUPED_PLAIN = grouped_template(PLAIN_LANES)
GROUPED_F32 = grouped_template(F32_LANES)
