"""Convolution over NCHW16c, for instructions that multiply a copy of x.

    x, r, y : (n, c/16, h, w, 16)                                   NCHW16c
    w       : (oc/16, ic/16, kh, kw, 16/width, 16 lanes * width)    a vector per step
    bias    : (row classes, 1, oc/16, 16)                           see schedules.bodies.border

The copy has the zero point to the left and right of the rows; rows outside the image are skipped.
Convolutions of single pixels know no rows: their strips are runs of pixels.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.bodies.border import axes_of
from schedules.bodies.buffers import allocate, ramp
from schedules.bodies.vectors import cast
from schedules.cpu.contractions import conv2d
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.strips.strip_kernel import Index, Strip
from schedules.cpu.strips.strip_rule import Extents, StripTiles
from schedules.cpu.tiles.padded_rows import PaddedRow
from schedules.spec import Conv2d
from schedules.template import Arrays


def extents_of(dot: Dot, spec: Conv2d) -> Extents:
    """Return the sizes of a convolution."""
    rows, cols = axes_of(spec)
    in_blocks, steps = conv2d.channel_steps(dot, spec)
    flat, blocks = is_flat(spec), -(-spec.out_channels // LANES)
    return Extents(
        batch=spec.batch,
        rows=rows.out * cols.out if flat else rows.out,
        columns=1 if flat else cols.out,
        blocks=blocks,
        group_blocks=blocks // spec.groups,
        steps=in_blocks * rows.kernel * cols.kernel * steps,
        stride=rows.stride,
        reach=reach_of(spec),
        row_elements=in_blocks * spec.groups * _width(spec) * LANES,
        flat=flat,
    )


def is_flat(spec: Conv2d) -> bool:
    """Whether pixels of y read the pixel of x at their own place alone."""
    return (spec.kernel, spec.strides) == ((1, 1), (1, 1)) and not any(spec.padding)


def strip_of(dot: Dot, spec: Conv2d, strips: StripTiles) -> Strip:
    """Return what the kernel of a convolution reads and writes."""
    rows, cols = axes_of(spec)
    in_blocks, steps = conv2d.channel_steps(dot, spec)
    extents, flat = extents_of(dot, spec), is_flat(spec)

    def _copy(buffers: dict[str, Any], n: Expr, first: Expr) -> Any:
        return _copied(dot, spec, strips.rows, buffers, (n, first))

    def _x(copy: Any, row: Expr, column: Expr, block: Expr, k: Index) -> Expr:
        pair = ramp(dot.width, k[3] * dot.width)
        channels = tirx.floordiv(block, extents.group_blocks) * in_blocks + k[0]
        down = row * rows.stride + k[1] * rows.dilation
        return copy[channels, down, column * cols.stride + k[2] * cols.dilation, pair]

    def _bias(buffers: dict[str, Any], row: Expr, block: Expr) -> Expr:
        of_row = T.int64(0) if flat else rows.class_of(row)
        return buffers["bias"][of_row, T.int64(0), block, ramp(LANES)]

    classes = 1 if flat else len(rows.classes)
    weights = (extents.blocks, in_blocks, *spec.kernel, steps, LANES * dot.width)
    return Strip(
        spec=spec,
        buffers=conv2d.buffers_of(spec, weights, (classes, 1, extents.blocks, LANES)),
        extents=extents,
        reduction=(in_blocks, *spec.kernel, steps),
        copy=_copy,
        x=_x,
        inside=lambda row, k: [] if flat or len(k) != 2 else rows.inside(row, k[1]),
        bias=_bias,
        lanes=lanes,
    )


def lanes(place: Index) -> Index:
    """Return the index of the 16 lanes of y, and of r, at a place."""
    return [*place, ramp(LANES)]


def pack(dot: Dot, spec: Conv2d, params: Arrays) -> Arrays:
    """Pack weights a vector per step, and fold the zero point of x into the bias."""
    return conv2d.pack(dot, spec, params, whole_rows=True)


def _width(spec: Conv2d) -> int:
    """Return the pixels of a row of the copy; of a flat one, one for each position."""
    if is_flat(spec):
        return 1
    cols = axes_of(spec)[1]
    return (cols.out - 1) * cols.stride + (cols.kernel - 1) * cols.dilation + 1


def reach_of(spec: Conv2d) -> int:
    """Return the rows of x that a row of y reads, and those between them."""
    rows = axes_of(spec)[0]
    return (rows.kernel - 1) * rows.dilation + 1


def _copied(dot: Dot, spec: Conv2d, rows: int, buffers: dict[str, Any], place: Index) -> Any:
    """Emit the copy of a strip of ``rows``; return its buffer (c/16, rows of x, pixels, 16)."""
    (n, first), x, blocks = place, buffers["x"], -(-spec.in_channels // LANES)
    dtype, flat = dot.staged or spec.x, is_flat(spec)
    if flat:
        height, width, top, padding, inside = 1, rows, T.int64(0), 0, rows
    else:
        height, width = (rows - 1) * spec.strides[0] + reach_of(spec), _width(spec)
        top, padding, inside = first * spec.strides[0], spec.padding[1], spec.width
    copy = allocate("copy", [blocks, height, width, LANES], dtype)
    left, inner = PaddedRow.reach(width, padding, inside)
    with T.grid(*int64([blocks, height])) as (c, row):
        source = top + row - spec.padding[0]

        def _load(pixel: Expr, count: int) -> Expr:
            at = (T.int64(0), first + pixel) if flat else (source, pixel)
            return cast(x[(n, c, *at, ramp(count))], dtype)

        def _store(pixel: Expr, count: int, value: Expr) -> None:
            T.buffer_store(copy, value, [c, row, pixel, ramp(count)])

        padded = PaddedRow(
            width=width, left=left, inner=inner, dtype=dtype, load=_load, store=_store
        )
        zero = buffers["z"][0].astype(dtype)
        padded.emit(tirx.all(source >= 0, source < spec.height), zero)
    return copy
