"""Bilinear resize, in any layout.

    x : logical (n, c, h, w)
    y : logical (n, c, oh, ow), same layout
    rows int32 (3 * oh,), columns int32 (3 * ow,), m float32 (1,), z int32 (2,), clamp float32 (2,)

Loops: see ``elementwise``; the lanes of a block are one vector.

Exact:  with weights a, b of 11 bits, ``first * 2**11 + (second - first) * weight`` is taken along
        the columns, then along the rows: three products for four pixels. Differences of pixels are
        at most 255, so that no step leaves int32: 510 * 2**22 < 2**31.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.body import Body
from schedules.bodies.elementwise import elementwise_kernel, first_layout
from schedules.bodies.expressions import OutputElement, centred, requantize
from schedules.layout import NHWC
from schedules.spec import Interpolate
from schedules.spec.interpolating import WEIGHT_BITS
from schedules.template import Layouts

AXES = ("rows", "columns")


def kernel(spec: Interpolate, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    run = int(layouts.output.block > 0 or layouts.output == NHWC)
    sizes = {name: 3 * size for name, size in zip(AXES, spec.out_size, strict=True)}
    return elementwise_kernel(spec, layouts, _interpolated, run, z=2, **sizes)


def _interpolated(point: OutputElement) -> Expr:
    n, c, *position = point.logical
    rows, columns = (
        [point.param(name, part * size + at) for part in range(3)]
        for name, size, at in zip(AXES, point.spec.out_size, position, strict=True)
    )

    def _along(row: Expr) -> Expr:
        left, right = (
            centred(point.at("x", (n, c, row, j)), point.param("z")) for j in columns[:2]
        )
        return _between(left, right, columns[2])

    acc = _between(_along(rows[0]), _along(rows[1]), rows[2])
    factors = [point.param(name) for name in point.spec.scaled_by("m")]
    return requantize(point.spec, acc, factors, point.param("z", 1), point.bounds)


def _between(first: Expr, second: Expr, weight: Expr) -> Expr:
    return first * (1 << WEIGHT_BITS) + (second - first) * weight


INTERPOLATE = Body(kind="interpolate", layouts=first_layout, kernel=kernel)
