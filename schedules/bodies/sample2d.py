"""Deformable sampling of an image: all channels of an output position together.

    x      : logical (n, c, h, w)                  NCHW<b>c, or any layout
    offset : float32 (n, 2 * taps * parts, oh, ow) any layout; mask float32 likewise
    y      : logical (n, taps * c, oh, ow)         the layout of x, or any
    m float32 (1,), z int32 (2,), clamp float32 (2,)          (integer x)

The columns are a tensor of their own, taps times as large as x: a 1x1 convolution reads them, with
every template and tile that it has.

Exact:  bit-identical to the specification; elements are independent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import te, tirx
from tvm.tirx import Expr

from schedules.bodies.body import Body, template_name
from schedules.bodies.corners import CORNERS, Corners
from schedules.bodies.elementwise import any_layouts
from schedules.bodies.expressions import OutputElement, centred, constants, placeholders, to_integer
from schedules.bodies.vectors import fma
from schedules.layout import Layout
from schedules.spec import Sample2d
from schedules.template import Layouts


def layouts(spec: Sample2d, wanted: Layouts) -> Layouts:
    """Return what is wanted of offsets and y, and x as y where that moves whole blocks."""
    layouts = any_layouts(spec, wanted)
    first = layouts.output if moves_blocks(spec, layouts.output) else layouts.inputs[0]
    return Layouts(inputs=(first, *layouts.inputs[1:]), output=layouts.output)


def moves_blocks(spec: Sample2d, layout: Layout) -> bool:
    """Say whether a block of channels of y is a block of x, seen by one tap of one part."""
    widths = (spec.channels // spec.groups, spec.channels // spec.parts)
    return layout.block > 0 and all(width % layout.block == 0 for width in widths)


def kernel(spec: Sample2d, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    tensors, params = placeholders(spec, layouts), constants(spec, z=2)
    run = moves_blocks(spec, layouts.output) and layouts.inputs[0] == layouts.output
    corners = Corners(spec, layouts, tensors, params)

    def _element(*physical: Expr) -> Expr:
        point = OutputElement(spec, layouts, tensors, params, physical)
        if run:
            return _sampled(point, corners, _block_of(spec, layouts.output.block, physical))
        value = _sampled(point, corners, _channel_of(spec, point.logical[1]))
        inside = point.logical[1] < spec.shape("y")[1]
        return tirx.if_then_else(inside, value, tirx.const(0, spec.dtype("y")))

    shape = layouts.output.physical_shape(spec.shape("y"))
    attrs = {"template": template_name(spec.kind), "run": int(run)}
    y = te.compute(shape, _element, name=spec.kind, attrs=attrs)
    inputs = [*tensors.values(), *params.values(), y]
    func = te.create_prim_func(inputs, index_dtype_override="int64")
    return func.without_attr("global_symbol")


@dataclass(frozen=True)
class _Column:
    """What a channel of y holds: a tap of a part; ``x`` says where a pixel of it lies in memory."""

    part: Expr
    tap: Expr
    x: Callable[[OutputElement, Expr, Expr], Expr]


def _channel_of(spec: Sample2d, column: Expr) -> _Column:
    channel, tap = _channel_and_tap(spec, column, spec.channels // spec.groups)

    def x(point: OutputElement, row: Expr, col: Expr) -> Expr:
        """Read the channel at a pixel, wherever the layout of x has it."""
        return point.at("x", (point.logical[0], channel, row, col))

    return _Column(tirx.floordiv(channel, spec.channels // spec.parts), tap, x)


def _block_of(spec: Sample2d, block: int, physical: tuple[Expr, ...]) -> _Column:
    """Return what a block of channels holds."""
    channels, tap = _channel_and_tap(spec, physical[1], spec.channels // spec.groups // block)

    def x(point: OutputElement, row: Expr, col: Expr) -> Expr:
        """Read the lane of y's own index: blocks of x and y have the same channels."""
        n, _, _, _, lane = point.physical
        return point.tensors["x"](n, channels, row, col, lane)

    return _Column(tirx.floordiv(channels, spec.channels // spec.parts // block), tap, x)


def _channel_and_tap(spec: Sample2d, column: Expr, width: int) -> tuple[Expr, Expr]:
    """Return channel (or block) and tap of a column, where a group has ``width`` of them."""
    group, within = tirx.floordiv(column, width * spec.taps), tirx.floormod(column, width)
    return group * width + within, tirx.floormod(tirx.floordiv(column, width), spec.taps)


def _sampled(point: OutputElement, corners: Corners, column: _Column) -> Expr:
    """Return one element of y."""
    spec, (n, _, *out) = point.spec, point.logical
    total = None
    for corner in range(CORNERS):
        row, col, weight = corners.at(n, column.part, column.tap, corner, *out)
        value = column.x(point, row, col)
        if spec.x != "float32":
            value = centred(value, point.param("z", 0)).astype("float32")
        total = value * weight if total is None else fma(value, weight, total)
    if spec.x == "float32":
        return total
    return to_integer(total, point.param("z", 1), point.bounds, spec.y)


SAMPLE2D = Body(kind="sample2d", layouts=layouts, kernel=kernel)
