"""Convolution of few channels over NHWC, for instructions that multiply a copy of x.

    x, w, bias, y, r    as ``schedules.cpu.contractions.conv2d_stem`` has them

The copy of a row has the zero point on both sides; rows outside the image are skipped.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.border import axes_of
from schedules.bodies.buffers import allocate, ramp
from schedules.bodies.vectors import cast
from schedules.cpu.contractions import conv2d_stem
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.strips import conv2d_strips
from schedules.cpu.strips.strip_kernel import CHUNK, Index, Strip
from schedules.cpu.strips.strip_rule import Extents, StripTiles
from schedules.cpu.tiles.runs import by_chunks
from schedules.spec import Conv2d

pack = conv2d_stem.pack


def extents_of(dot: Dot, spec: Conv2d) -> Extents:
    """Return the sizes of a convolution."""
    rows, cols = axes_of(spec)
    blocks = -(-spec.out_channels // LANES)
    return Extents(
        batch=spec.batch,
        rows=rows.out,
        columns=cols.out,
        blocks=blocks,
        group_blocks=blocks,
        steps=rows.kernel * conv2d_stem.steps_of(dot, spec),
        stride=rows.stride,
        reach=conv2d_strips.reach_of(spec),
        row_elements=_length(dot, spec),
    )


def strip_of(dot: Dot, spec: Conv2d, strips: StripTiles) -> Strip:
    """Return what the kernel of a convolution reads and writes."""
    rows, cols = axes_of(spec)
    steps = conv2d_stem.steps_of(dot, spec)

    def _copy(buffers: dict[str, Any], n: Expr, first: Expr) -> Any:
        return _copied(dot, spec, strips.rows, buffers, (n, first))

    def _x(copy: Any, row: Expr, column: Expr, block: Expr, k: Index) -> Expr:
        start = column * (cols.stride * spec.in_channels) + k[1] * dot.width
        return copy[row * rows.stride + k[0] * rows.dilation, ramp(dot.width, start)]

    def _bias(buffers: dict[str, Any], row: Expr, block: Expr) -> Expr:
        return buffers["bias"][rows.class_of(row), block, ramp(LANES)]

    return Strip(
        spec=spec,
        buffers=conv2d_stem.arguments_of(dot, spec),
        extents=extents_of(dot, spec),
        reduction=(rows.kernel, steps),
        copy=_copy,
        x=_x,
        inside=lambda row, k: rows.inside(row, k[0]) if len(k) == 1 else [],
        bias=_bias,
        lanes=conv2d_strips.lanes,
    )


def _length(dot: Dot, spec: Conv2d) -> int:
    """Return the elements of a row of the copy."""
    cols = axes_of(spec)[1]
    steps = conv2d_stem.steps_of(dot, spec)
    return (cols.out - 1) * cols.stride * spec.in_channels + steps * dot.width


def _copied(dot: Dot, spec: Conv2d, rows: int, buffers: dict[str, Any], place: Index) -> Any:
    """Emit the copy of a strip of ``rows``; return its buffer (rows of x, elements)."""
    (n, first), x, dtype = place, buffers["x"], dot.staged or spec.x
    height = (rows - 1) * spec.strides[0] + conv2d_strips.reach_of(spec)
    length = _length(dot, spec)
    left = min(spec.padding[1] * spec.in_channels, length)
    inner = min(spec.width * spec.in_channels, length - left)
    copy = allocate("copy", [height, length], dtype)
    zero = buffers["z"][0].astype(dtype)
    with T.serial(T.int64(height)) as row:
        source = first * spec.strides[0] + row - spec.padding[0]

        def _fill(begin: int, end: int) -> None:
            with T.serial(T.int64(begin), T.int64(end)) as i:
                T.buffer_store(copy, zero, [row, i])

        def _elements(first: Expr, count: int) -> None:
            # An index past the pixel's channels goes on to the next pixels.
            value = cast(x[n, source, T.int64(0), ramp(count, first)], dtype)
            T.buffer_store(copy, value, [row, ramp(count, left + first)])

        with T.If(tirx.all(source >= 0, source < spec.height)), T.Then():
            _fill(0, left)
            by_chunks(inner, CHUNK, _elements)
            _fill(left + inner, length)
    return copy
