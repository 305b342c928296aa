"""Convolution of few channels (the RGB stem) over NHWC, for any instruction flavour.

    x    : (n, h, w, c)                                   NHWC
    w    : (oc/16, kh, kw*c/width, 16 lanes * width)      a vector per step
    bias : (row classes, oc/16, 16)                       see schedules.bodies.border
    y, r : (n, oc/16, oh, ow, 16)                         NCHW16c

In NHWC the kw * c elements of x that one row of a window reads are one run, wherever it starts:
steps take ``width`` of them each, the last with zero weights past the run. So 7x7 of 3 channels
takes 6 steps a row, not 7 * 16 / 4. Each task first copies the rows it reads, with the zero point
to their left and right; rows outside the image are skipped.

Exact:  integers always; float32 sums ascend over (kh, kw, c).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import tirx
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.bodies.border import BorderedAxis, axes_of
from schedules.bodies.buffers import allocate, ramp
from schedules.bodies.epilogue import type_refusal
from schedules.bodies.prim_func import axes
from schedules.cpu.contractions.conv2d import FoldedBias, buffers_of
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.tiles.contraction import ContractionKernel, Index, contraction_kernel
from schedules.cpu.tiles.conv_arguments import channel_blocks, pack_with
from schedules.cpu.tiles.tile_rule import OutputRow
from schedules.layout import NCHW16C, NHWC
from schedules.spec import Conv2d
from schedules.template import Arrays, Layouts

STAGE = "stage"
MOST_CHANNELS = 4  # input channels; with more, NCHW16c wastes less than this saves
CHUNK = 16  # elements of a row that are copied at once
ROUND = 4  # multiple that the columns of y are rounded up to


def refuses(dot: Dot, spec: Conv2d, target: Target) -> str | None:
    """Say why ``spec`` cannot be computed with ``dot`` on ``target``, or None."""
    if spec.in_channels > MOST_CHANNELS:
        return f"{spec.in_channels} input channels; a stem has at most {MOST_CHANNELS}"
    if spec.groups > 1:
        return f"{spec.groups} groups; a stem has one"
    if spec.dilation[1] > 1:
        return f"dilation {spec.dilation[1]} along the width; the taps of a row are not one run"
    return dot.refuses(spec.x, target) or type_refusal(spec, weights=dot.weights)


def layouts(spec: Conv2d, wanted: Layouts) -> Layouts:
    """Return the only layouts it has: NHWC in, NCHW16c out."""
    inputs = (NHWC, NCHW16C) if spec.residual else (NHWC,)
    return Layouts(inputs=inputs, output=NCHW16C)


def row_of(spec: Conv2d) -> OutputRow:
    """Return what the schedule needs to know of a row."""
    chunks = spec.kernel[0] * spec.width * spec.in_channels // CHUNK
    return OutputRow(short=False, staged=2 * chunks)


def kernel(dot: Dot, name: str, spec: Conv2d) -> tirx.PrimFunc:
    """Return the unscheduled PrimFunc of template ``name``."""
    rows, cols = axes_of(spec)
    steps = steps_of(dot, spec)
    width = -(-cols.out // ROUND) * ROUND
    length = (width - 1) * cols.stride * spec.in_channels + steps * dot.width
    length = -(-length // CHUNK) * CHUNK

    def x(buffers: dict[str, Any], p: Index, k: Index) -> Expr:
        """Read the next elements of a window's row, which lies in one run of the staged copy."""
        start = p[3] * (cols.stride * spec.in_channels) + k[1] * dot.width
        return buffers["x"][p[0], _row(rows, p, k), ramp(dot.width, start)]

    parts = ContractionKernel(
        template=name,
        buffers=arguments_of(dot, spec),
        spatial=(spec.batch, -(-spec.out_channels // LANES), rows.out, width),
        reduction=(rows.kernel, steps),
        guards=lambda p, k: [rows.inside(p[2], k[0])],
        x=x,
        w=lambda p, k: (p[1], *k),
        bias=lambda p: (rows.class_of(p[2]), p[1]),
        y=lambda p: (*p, ramp(LANES)),
        keep=(lambda p: p[3] < cols.out) if width != cols.out else None,
        stage=lambda buffers: _stage(spec, rows, length, buffers),
        staged=lambda p, k: (p[0], _row(rows, p, k), slice(0, length)),
    )
    return contraction_kernel(spec, dot, parts)


def pack(dot: Dot, spec: Conv2d, params: Arrays) -> Arrays:
    """Pack the weights of a run a vector per step; fold the zero point into the bias by rows."""
    steps, (rows, cols) = steps_of(dot, spec), axes_of(spec)
    w = channel_blocks(
        params["w"].transpose(0, 2, 3, 1).reshape(spec.out_channels, rows.kernel, -1)
    )
    w = np.pad(w, ((0, 0), (0, 0), (0, 0), (0, steps * dot.width - w.shape[3])))
    w = w.reshape(len(w), LANES, rows.kernel, steps, dot.width).transpose(0, 2, 3, 1, 4)
    taps, folded = [rows.taps(position) for position in rows.classes], FoldedBias(spec, params)
    every = list(range(cols.kernel))
    bias = np.stack([channel_blocks(folded.of(of_row, every)) for of_row in taps])
    weights = np.ascontiguousarray(w).reshape(*w.shape[:3], -1)
    return {**pack_with(weights, params), "bias": bias}


def steps_of(dot: Dot, spec: Conv2d) -> int:
    """Return the steps of the instruction that a row of a window takes."""
    return -(-spec.kernel[1] * spec.in_channels // dot.width)


def _row(rows: BorderedAxis, p: Index, k: Index) -> Expr:
    """Return the row of the padded image that a step reads."""
    return p[2] * rows.stride + k[0] * rows.dilation


def _stage(spec: Conv2d, rows: BorderedAxis, length: int, buffers: dict[str, Any]) -> Any:
    """Copy rows of x between zero points; rows of padding stay as they are, nobody reads them."""
    x, elements = buffers["x"], spec.width * spec.in_channels
    fill = buffers["z"][0].astype(spec.x) if "z" in buffers else tirx.const(0, "float32")
    height = (rows.out - 1) * rows.stride + (rows.kernel - 1) * rows.dilation + 1
    staged = allocate("rows", (spec.batch, height, length), spec.x)
    extents = int64((spec.batch, height, length // CHUNK))
    with T.grid(*extents) as loops, T.sblock(STAGE):
        n, h, j = axes("n h j", extents, loops)
        row, start = h - rows.before, j * CHUNK - spec.padding[1] * spec.in_channels
        first = j * CHUNK
        T.reads(x[n, 0 : spec.height, 0 : spec.width, 0 : spec.in_channels])
        T.writes(staged[n, h, first : first + CHUNK])

        def _element(offset: Expr) -> Expr:
            inside = tirx.all(offset >= 0, offset < elements)
            return tirx.if_then_else(inside, x[n, row, T.int64(0), offset], fill)

        exists, whole = (row >= 0, row < spec.height), (start >= 0, start + CHUNK <= elements)
        with T.If(tirx.all(*exists)), T.Then(), T.If(tirx.all(*whole)):
            with T.Then():  # an index past the pixel's channels goes on to the next pixels
                chunk = x[n, row, T.int64(0), ramp(CHUNK, start)]
                T.buffer_store(staged, chunk, [n, h, ramp(CHUNK, first)])
            with T.Else(), T.serial(T.int64(0), T.int64(CHUNK)) as i:
                T.buffer_store(staged, _element(start + i), [n, h, first + i])
    return staged


def arguments_of(dot: Dot, spec: Conv2d) -> dict[str, tuple[Any, str]]:
    """Return shape and type of each argument."""
    rows, blocks = axes_of(spec)[0], -(-spec.out_channels // LANES)
    weights = (blocks, rows.kernel, steps_of(dot, spec), LANES * dot.width)
    known = buffers_of(spec, weights, (len(rows.classes), blocks, LANES))
    return {**known, "x": (NHWC.physical_shape(spec.shape("x")), spec.x)}
