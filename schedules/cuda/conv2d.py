"""Convolution over NCHW4c: what dp4a and float kernels have in common.

    x, r, y         : (n, c/4, h, w, 4)                       NCHW4c
    w               : (oc/4, ic/4, kh, kw, 4 oc, 4 ic)        OIHW4o4i
    bias, m, m_neg, alpha : (oc/4, 4)

Padding is the zero point, put in while x is staged into shared memory; ``-z_x * sum w`` is part of
the bias. A 1x1 convolution that reads every pixel sees the image as one row.

Exact:  integers always; float32 sums ascend within a tile of the reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm.tirx import Expr

from schedules.cpu.conv_arguments import fold_zero_point
from schedules.cuda.contraction import (
    PER_CHANNEL,
    Contraction,
    Index,
    channel_blocks,
    contraction_kernel,
    roomy,
)
from schedules.cuda.default_tiles import default_tiles
from schedules.cuda.intrin import LANES, STEPS
from schedules.cuda.tiles import apply, sampled
from schedules.layout import NCHW4C
from schedules.spec import Conv2d
from schedules.template import Arrays, Layouts, ScheduleTemplate


def layouts(spec: Conv2d, wanted: Layouts) -> Layouts:
    """Return the only layouts it has: NCHW4c."""
    return Layouts(inputs=(NCHW4C,) * len(spec.tensors), output=NCHW4C)


def refuses_groups(spec: Conv2d) -> str | None:
    """Say why the groups of ``spec`` do not fall between blocks of channels, or None."""
    inputs, outputs = spec.in_channels // spec.groups, spec.out_channels // spec.groups
    if spec.groups > 1 and (inputs % LANES or outputs % LANES):
        return f"groups of {inputs} -> {outputs} channels; want multiples of {LANES}"
    return None


def is_flat(spec: Conv2d) -> bool:
    """Whether it reads every pixel once, so that rows do not matter."""
    return spec.kernel == spec.strides == (1, 1) and not any(spec.padding)


def out_blocks(spec: Conv2d) -> int:
    """Return the blocks of output channels, with those that are not written."""
    blocks = -(-spec.out_channels // LANES)
    return roomy(blocks) if spec.groups == 1 else blocks


def in_blocks(spec: Conv2d) -> int:
    """Return the blocks of input channels of a group."""
    return -(-(spec.in_channels // spec.groups) // LANES)


def kernel(name: str, spec: Conv2d) -> tirx.PrimFunc:
    """Return the unscheduled PrimFunc of template ``name``."""
    rows, cols = (1, spec.height * spec.width) if is_flat(spec) else spec.out_size
    out, (sh, sw), (dh, dw) = out_blocks(spec), spec.strides, spec.dilation
    high, wide = roomy(rows), roomy(cols)
    kh, kw = spec.kernel

    def source(p: Index, k: Index) -> Index:
        group = tirx.floordiv(p[1], out // spec.groups) * in_blocks(spec)
        first = group if spec.groups > 1 else 0
        return (p[0], first + k[0], p[2] * sh + k[1] * dh, p[3] * sw + k[2] * dw)

    def keep(p: Index, c: Expr) -> list[Expr]:
        limits = ((p[1], -(-spec.out_channels // LANES), out), (p[2], rows, high))
        return [axis < size for axis, size, room in (*limits, (p[3], cols, wide)) if size < room]

    def x(buffers: dict[str, Any], place: Index, i: Expr) -> Expr:
        index = (*place[:2], *_x_pixel(spec, place[2:]), tirx.const(0, "int64"))
        return STEPS[spec.x].load(buffers["x"], index, i)

    parts = Contraction(
        template=name,
        buffers=_buffers(spec),
        spatial=(spec.batch, out, high, wide),
        reduction=(in_blocks(spec), kh, kw),
        staged=(
            spec.batch,
            spec.groups * in_blocks(spec),
            (high - 1) * sh + (kh - 1) * dh + 1,
            (wide - 1) * sw + (kw - 1) * dw + 1,
        ),
        inside=lambda place: _inside(spec, place[2:]),
        x=x,
        source=source,
        y=lambda p, c: (*p[:2], *_pixel(spec, p[2:]), c),
        keep=keep,
    )
    return contraction_kernel(spec, parts)


def _pixel(spec: Conv2d, place: Index) -> Index:
    """Return the row and the column of a pixel."""
    if not is_flat(spec):
        return place
    return tirx.floordiv(place[1], spec.width), tirx.floormod(place[1], spec.width)


def _x_pixel(spec: Conv2d, place: Index) -> Index:
    """Return the row and the column of x at a place of the staged image."""
    if is_flat(spec):
        return _pixel(spec, place)
    return place[0] - spec.padding[0], place[1] - spec.padding[1]


def _inside(spec: Conv2d, place: Index) -> list[Expr]:
    """Return the conditions under which a place of the staged image lies inside x."""
    if is_flat(spec):
        pixels = spec.height * spec.width
        return [place[1] < pixels] if roomy(pixels) > pixels else []
    h, w = _x_pixel(spec, place)
    return [h >= 0, h < spec.height, w >= 0, w < spec.width]


def _buffers(spec: Conv2d) -> dict[str, tuple[Any, str]]:
    """Return shape and type of each argument."""
    integer, channels = spec.x != "float32", (out_blocks(spec), LANES)
    known: dict[str, tuple[Sequence[Any], str]] = {
        "w": ((out_blocks(spec), in_blocks(spec), *spec.kernel, LANES, LANES), "int8"),
        "bias": (channels, "int32" if integer else "float32"),
        "z": ((3,), "int32"),
        "m_r": ((1,), "float32"),
        "clamp": ((2,), "float32"),
    }
    if not integer:
        known["w"] = (known["w"][0], "float32")
    for name in (*spec.tensors, "y"):
        known[name] = (NCHW4C.physical_shape(spec.shape(name)), spec.dtype(name))
    names = (*spec.tensors, *spec.params, "y")
    return {name: known.get(name, (channels, "float32")) for name in names}


def pack(spec: Conv2d, params: Arrays) -> Arrays:
    """Pack weights as OIHW4o4i, and fold the zero point of x into the bias."""
    folded, blocks = fold_zero_point(spec, params), out_blocks(spec)
    w = channel_blocks(params["w"], blocks)  # (oc/4, 4, ic, kh, kw)
    w = np.pad(w, ((0, 0), (0, 0), (0, in_blocks(spec) * LANES - w.shape[2]), (0, 0), (0, 0)))
    w = w.reshape(blocks, LANES, in_blocks(spec), LANES, *spec.kernel)
    packed = {
        name: channel_blocks(value, blocks) if name in PER_CHANNEL else value
        for name, value in folded.items()
    }
    return {**packed, "w": np.ascontiguousarray(w.transpose(0, 2, 4, 5, 1, 3))}


def default(sch: Schedule, spec: Conv2d, target: Target) -> None:
    """Apply fixed tiles."""
    apply(sch, default_tiles(sch, spec, target))


def space(sch: Schedule, spec: Conv2d, target: Target) -> None:
    """Apply the same loops with tiles that MetaSchedule samples."""
    apply(sch, sampled(sch))


def conv2d_template(
    name: str, refuses: Callable[[Conv2d, Target], str | None], x_types: tuple[str, ...]
) -> ScheduleTemplate:
    """Return the template of one instruction."""
    return ScheduleTemplate(
        name=name,
        kind="conv2d",
        refuses=refuses,
        layouts=layouts,
        kernel=lambda spec, _layouts: kernel(name, spec),
        default=default,
        space=space,
        pack=pack,
        x_types=x_types,
    )
