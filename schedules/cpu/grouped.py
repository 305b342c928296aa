"""Grouped convolution of 2, 4 or 8 channels in and out a group, on any LLVM target.

A block of 16 channels holds whole groups, so a pixel's 16 channels are all that its 16 outputs
need: each output channel is a lane, and every input channel of its group is brought there by a
constant shuffle of the pixel. Groups of 16 * k channels are plain convolutions block by block.

    select s brings input channels [s * width, (s + 1) * width) of each lane's own group

Loops: see ``schedules.cpu.strip_tiles``.
Exact: int32 sums; float32 by fma in ascending order of (row, column, channel), from the bias on.
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

MAX_TAPS = 256  # multiplications a pixel: all are unrolled
GROUP_SIZES = (2, 4, 8)


def grouped_refusal(spec: Conv2d, target: Target, width: int) -> str | None:
    """Say why no grouped kernel that sums ``width`` channels a lane can compute ``spec``."""
    if target.kind.name != "llvm":
        return f"target is {target.kind.name}, not llvm"
    inputs, outputs = spec.in_channels // spec.groups, spec.out_channels // spec.groups
    if inputs != outputs or inputs not in GROUP_SIZES:
        return f"groups have {inputs} channels in and {outputs} out, not 2, 4 or 8 of both"
    taps = len(taps_of(spec, width)[0])
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


def _strip(spec: Conv2d, template: str, dtypes: tuple[str, str]) -> Strip:
    size = group_size(spec)

    def multiply(acc: Expr, x: Expr, w: Expr, select: int) -> Expr:
        x = tirx.Shuffle([x], select_order(size, 1, select))
        if dtypes[1] == "float32":
            return fma(x, w, acc)
        return acc + cast(x, "int32") * cast(w, "int32")

    return Strip(
        template=template,
        staged=dtypes[0],
        pixels=1,
        taps=taps_of(spec, 1),
        weights=(dtypes[1], LANES),
        multiply=multiply,
    )


def _refuses_plain(spec: Conv2d, target: Target) -> str | None:
    if spec.x == "float32":
        return "x is float32; this kernel sums integers"
    return grouped_refusal(spec, target, 1)


def _kernel_plain(spec: Conv2d, layouts: Layouts) -> tirx.PrimFunc:
    return strip_kernel(spec, _strip(spec, GROUPED_PLAIN.name, (spec.x, "int8")))


def _refuses_f32(spec: Conv2d, target: Target) -> str | None:
    if spec.x != "float32":
        return f"x is {spec.x}; this kernel sums float32"
    return grouped_refusal(spec, target, 1)


def _kernel_f32(spec: Conv2d, layouts: Layouts) -> tirx.PrimFunc:
    return strip_kernel(spec, _strip(spec, GROUPED_F32.name, ("float32", "float32")))


def _pack(spec: Conv2d, params: Arrays) -> Arrays:
    return pack_with(pack_groups(params["w"], group_size(spec), 1), fold_zero_point(spec, params))


GROUPED_PLAIN = ScheduleTemplate(
    name="grouped_plain",
    kind="conv2d",
    refuses=_refuses_plain,
    layouts=blocked,
    kernel=_kernel_plain,
    default=default,
    space=space,
    pack=_pack,
    x_types=("uint8", "int8"),
)
GROUPED_F32 = ScheduleTemplate(
    name="grouped_f32",
    kind="conv2d",
    refuses=_refuses_f32,
    layouts=blocked,
    kernel=_kernel_f32,
    default=default,
    space=space,
    pack=_pack,
    x_types=("float32",),
)
