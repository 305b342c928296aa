"""Sample an image at moved places, all channels of a place together.

    x      : logical (n, c, h, w)                  NCHW<b>c, or any layout
    offset : float32 (n, 2 * taps * parts, oh, ow) any layout; mask float32 likewise
    y      : logical (n, taps * c, oh, ow)         the layout of x, or any
    m float32 (1,), z int32 (2,), clamp float32 (2,)          (integer x)

Where a block of y lies within one tap, one group and one part of the channels (annotation run = 1):

    p:n p:group,tap p:oh    corners, weights of a row of y        4 of each place, in L1
                            c/b  ow  v:lanes                      4 loads, 1 product, 3 fma

else a scalar gather of each element, after the corners and weights of the whole image.

The columns are a tensor of their own, taps times as large as x: a 1x1 convolution reads them, with
every template and tile that it has.

Exact:  bit-identical to the specification; elements are independent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV
from tvm.target import Target
from tvm.tirx import Expr

from schedules.cpu.corners import CORNERS, STAGES, Corners
from schedules.cpu.elementwise import (
    SERIAL_ELEMENTS,
    any_layouts,
    extents,
    refuses_kind,
    template_blocks,
)
from schedules.expressions import Point, centred, constants, fma, placeholders, to_integer
from schedules.layout import Layout
from schedules.spec import Sample2d
from schedules.template import Layouts, ScheduleTemplate


def layouts(spec: Sample2d, wanted: Layouts) -> Layouts:
    """Return what is wanted of offsets and y, and x as y where that moves whole blocks."""
    found = any_layouts(spec, wanted)
    first = found.output if moves_blocks(spec, found.output) else found.inputs[0]
    return Layouts(inputs=(first, *found.inputs[1:]), output=found.output)


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
        point = Point(spec, layouts, tensors, params, physical)
        if run:
            return _sampled(point, corners, _block_of(spec, layouts.output.block, physical))
        value = _sampled(point, corners, _channel_of(spec, point.logical[1]))
        inside = point.logical[1] < spec.shape("y")[1]
        return tirx.if_then_else(inside, value, tirx.const(0, spec.dtype("y")))

    shape = layouts.output.physical_shape(spec.shape("y"))
    attrs = {"template": SAMPLE2D_CPU.name, "run": int(run)}
    y = te.compute(shape, _element, name=spec.kind, attrs=attrs)
    inputs = [*tensors.values(), *params.values(), y]
    func = te.create_prim_func(inputs, index_dtype_override="int64")
    return func.without_attr("global_symbol")


@dataclass(frozen=True)
class _Column:
    """What a channel of y holds: a tap of a part; ``x`` says where a pixel of it lies in memory."""

    part: Expr
    tap: Expr
    x: Callable[[Point, Expr, Expr], Expr]


def _channel_of(spec: Sample2d, column: Expr) -> _Column:
    channel, tap = _channel_and_tap(spec, column, spec.channels // spec.groups)

    def x(point: Point, row: Expr, col: Expr) -> Expr:
        """Read the channel at a pixel, wherever the layout of x has it."""
        return point.at("x", (point.logical[0], channel, row, col))

    return _Column(tirx.floordiv(channel, spec.channels // spec.parts), tap, x)


def _block_of(spec: Sample2d, block: int, physical: tuple[Expr, ...]) -> _Column:
    """Return what a block of channels holds."""
    channels, tap = _channel_and_tap(spec, physical[1], spec.channels // spec.groups // block)

    def x(point: Point, row: Expr, col: Expr) -> Expr:
        """Read the lane of y's own place: blocks of x and y have the same channels."""
        n, _, _, _, lane = point.physical
        return point.tensors["x"](n, channels, row, col, lane)

    return _Column(tirx.floordiv(channels, spec.channels // spec.parts // block), tap, x)


def _channel_and_tap(spec: Sample2d, column: Expr, width: int) -> tuple[Expr, Expr]:
    """Return channel (or block) and tap of a column, where a group has ``width`` of them."""
    group, within = tirx.floordiv(column, width * spec.taps), tirx.floormod(column, width)
    return group * width + within, tirx.floormod(tirx.floordiv(column, width), spec.taps)


def _sampled(point: Point, corners: Corners, column: _Column) -> Expr:
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


def default(sch: Schedule, spec: Sample2d, target: Target) -> None:
    """Apply fixed tiles."""
    (block,) = template_blocks(sch)
    if int(sch.get(block).annotations["run"]):
        _apply_blocked(sch, spec, block)
    else:
        _apply_scalar(sch, block)


def _apply_blocked(sch: Schedule, spec: Sample2d, block: SBlockRV) -> None:
    n, column, row, col, lane = sch.get_loops(block)
    parallel = extents(sch, [n, column, row, col, lane]) >= SERIAL_ELEMENTS
    blocks = spec.channels // spec.groups // int(sch.get(lane).extent)
    tap, channels = sch.split(column, [None, blocks])
    sch.reorder(n, tap, row, channels, col, lane)
    for name in STAGES:
        sch.compute_at(sch.get_sblock(name), row)
    sch.vectorize(lane)
    outer = sch.fuse(n, tap, row)
    if parallel:
        sch.parallel(outer)


def _apply_scalar(sch: Schedule, block: SBlockRV) -> None:
    for part in (*(sch.get_sblock(name) for name in STAGES[::-1]), block):
        loops = sch.get_loops(part)
        parallel = extents(sch, loops) >= SERIAL_ELEMENTS
        outer = sch.fuse(*loops[:-1])
        if parallel:
            sch.parallel(outer)


SAMPLE2D_CPU = ScheduleTemplate(
    name="sample2d_cpu",
    kind="sample2d",
    refuses=refuses_kind,
    layouts=layouts,
    kernel=kernel,
    default=default,
    space=default,
)
