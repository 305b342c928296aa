"""Bilinear resize of floats, element by element in any layout.

    x : logical (n, c, h, w)
    y : logical (n, c, oh, ow), same layout
    rows int32 (2 * oh,), row_weights float32 (oh,), columns int32 (2 * ow,), column_weights (ow,)

Exact:  bit-identical to the specification.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.body import Body
from schedules.bodies.elementwise import elementwise_kernel, first_layout
from schedules.bodies.expressions import OutputElement
from schedules.bodies.vectors import fma
from schedules.spec import Bilinear
from schedules.template import Layouts


def kernel(spec: Bilinear, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    return elementwise_kernel(spec, layouts, _interpolated, 0, **spec.lengths())


def _interpolated(point: OutputElement) -> Expr:
    n, c, row, column = point.logical
    height, width = point.spec.out_size
    rows = [point.param("rows", part * height + row) for part in range(2)]
    columns = [point.param("columns", part * width + column) for part in range(2)]

    def _along(i: Expr) -> Expr:
        left, right = (point.at("x", (n, c, i, j)) for j in columns)
        return _between(left, right, point.param("column_weights", column))

    return _between(_along(rows[0]), _along(rows[1]), point.param("row_weights", row))


def _between(first: Expr, second: Expr, weight: Expr) -> Expr:
    return fma(second - first, weight, first)


BILINEAR = Body(kind="bilinear", layouts=first_layout, kernel=kernel)
