"""Max and average pooling, in any layout.

    x : logical (n, c, h, w)
    y : logical (n, c, oh, ow), same layout; float32 lanes past the last channel are 0, or finite
        where a window holds padding alone
    m float32 (oh, ow), z int32 (2,), clamp float32 (2,)   (average only; fixed-point: all int32,
    shift (oh, ow))

Exact:  integer sums never overflow for windows of at most 2**22 elements, as 511 * 2**22 < 2**31.
        float32 sums ascend over rows, then columns.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import te, tirx
from tvm.tirx import Expr

from schedules.bodies.body import Body, symbolic_axis, template_name
from schedules.bodies.elementwise import first_layout
from schedules.bodies.expressions import (
    OutputElement,
    centred,
    constants,
    is_ragged,
    placeholders,
    requantize,
)
from schedules.bodies.extremes import least, maximum
from schedules.layout import NHWC, ROW
from schedules.spec import Pool2d
from schedules.template import Layouts

MAX_TAPS = 2**22  # taps of a window, bounded by an int32 sum; see Exact


def refuses(spec: Pool2d) -> str | None:
    """Say why it cannot be computed, or None."""
    taps = spec.kernel[0] * spec.kernel[1]
    if taps > MAX_TAPS:
        return f"a window of {taps} elements may overflow int32; the limit is {MAX_TAPS}"
    return symbolic_axis(spec)


def kernel(spec: Pool2d, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    tensors, params = placeholders(spec, layouts), constants(spec, z=2)
    for name in spec.scaled_by("m") if spec.reduce == "avg" else ():
        params[name] = te.placeholder(spec.out_size, spec.constant_dtype(name), name)
    window = [te.reduce_axis((0, size), name) for size, name in zip(spec.kernel, "ij", strict=True)]
    shape = layouts.output.physical_shape(spec.shape("y"))
    attrs = {"template": template_name(spec.kind), "run": 0 if layouts.output == ROW else 1}

    def _compute(
        value: Callable[[OutputElement], Expr], name: str, attrs: dict[str, str | int]
    ) -> te.Tensor:
        def _element(*index: Expr) -> Expr:
            return value(OutputElement(spec, layouts, tensors, params, index))

        return te.compute(shape, _element, name=name, attrs=attrs)

    if spec.reduce == "max":
        y = _compute(lambda point: _largest(point, window), spec.kind, attrs)
    else:
        total = _compute(lambda point: _sum(point, window), "window_sum", {})
        y = _compute(lambda point: _scaled(point, total), spec.kind, attrs)
    inputs = [*tensors.values(), *params.values(), y]
    func = te.create_prim_func(inputs, index_dtype_override="int64")
    return func.without_attr("global_symbol")


def _largest(point: OutputElement, window: list[tirx.IterVar]) -> Expr:
    """Reduce by max. Where every window meets the image, padding repeats its edge, or is least.

    Elsewhere it is the lowest number, so that what padding alone gives is finite.
    """
    spec = point.spec
    rows, cols = _source(point, window)
    if not meets_image(spec):
        return maximum(_read_or(point, rows, cols, te.min_value(spec.x)), window)
    if spec.dilation == (1, 1):
        rows = te.max(te.min(rows, spec.height - 1), 0)
        cols = te.max(te.min(cols, spec.width - 1), 0)
        return maximum(_read(point, rows, cols), window)
    return maximum(_read_or(point, rows, cols, least(spec.x)), window)


def _sum(point: OutputElement, window: list[tirx.IterVar]) -> Expr:
    rows, cols = _source(point, window)
    if point.spec.x == "float32":
        return te.sum(_read_or(point, rows, cols, tirx.const(0, "float32")), window)
    z_x = point.param("z", 0)
    return te.sum(centred(_read_or(point, rows, cols, z_x.astype(point.spec.x)), z_x), window)


def _scaled(point: OutputElement, total: te.Tensor) -> Expr:
    acc = total(*point.physical)
    factors = [point.params[name](*point.logical[2:]) for name in point.spec.scaled_by("m")]
    if point.spec.x == "float32":
        return acc * factors[0]
    y = requantize(point.spec, acc, factors, point.param("z", 1), point.bounds)
    if point.spec.y == "float32" and is_ragged(point.layouts.output, point.spec.shape("y")):
        return tirx.Select(point.logical[1] < point.spec.channels, y, tirx.const(0, "float32"))
    return y


def _source(point: OutputElement, window: list[tirx.IterVar]) -> list[Expr]:
    """Return the row and the column of x, possibly outside of it."""
    spec = point.spec
    axes = zip(point.logical[2:], window, spec.strides, spec.dilation, spec.padding, strict=True)
    return [out * stride + tap * dilation - pad for out, tap, stride, dilation, pad in axes]


def _read(point: OutputElement, row: Expr, col: Expr) -> Expr:
    """Read x at another pixel of the same channel."""
    first = 1 if point.layouts.output == NHWC else 2
    index = (*point.physical[:first], row, col, *point.physical[first + 2 :])
    return point.tensors["x"](*index)


def _read_or(point: OutputElement, row: Expr, col: Expr, outside: Expr) -> Expr:
    spec = point.spec
    if not leaves_image(spec):
        return _read(point, row, col)
    inside = tirx.all(row >= 0, row < spec.height, col >= 0, col < spec.width)
    return tirx.if_then_else(inside, _read(point, row, col), outside)


def leaves_image(spec: Pool2d) -> bool:
    """Say whether any window reaches past the image."""
    spans = zip(
        (spec.height, spec.width),
        *(spec.out_size, spec.strides, spec.kernel, spec.dilation, spec.padding),
        strict=True,
    )
    return any(
        pad > 0 or (out - 1) * stride + (taps - 1) * dilation - pad >= size
        for size, out, stride, taps, dilation, pad in spans
    )


def meets_image(spec: Pool2d) -> bool:
    """Say whether each window holds at least one pixel."""
    spans = zip(
        (spec.height, spec.width),
        *(spec.out_size, spec.strides, spec.kernel, spec.dilation, spec.padding),
        strict=True,
    )
    return all(
        any(0 <= first + tap * dilation < size for tap in range(taps))
        for size, out, stride, taps, dilation, pad in spans
        for first in range(-pad, out * stride - pad, stride)
    )


POOL2D = Body(kind="pool2d", layouts=first_layout, kernel=kernel, refuses=refuses)
