"""The greater or the lesser of an integer tensor, moved to another scale, and a constant.

    x, y  : logical (n, c, ...) in one layout
    bound : row major in its logical shape, whatever the layout; axes of extent 1 are broadcast
    m float32 (1,), z int32 (2,), clamp float32 (2,); fixed-point: all int32, shift (1,)

Exact:  one multiply per element, then integers of y are compared. Loops: see ``elementwise``; the
        flat run ends where bound is not read in its order.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.body import Body
from schedules.bodies.elementwise import elementwise_kernel, first_layout
from schedules.bodies.expressions import (
    OutputElement,
    broadcast_suffix,
    centred,
    channel,
    common_suffix,
    requantize,
)
from schedules.layout import ROW
from schedules.spec import Bound
from schedules.template import Layouts


def kernel(spec: Bound, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    run = common_suffix(spec, layouts)
    in_order = broadcast_suffix(spec.bound_shape, spec.dims) if layouts.output == ROW else 1
    size = math.prod(spec.bound_shape)
    return elementwise_kernel(spec, layouts, _value, min(run, in_order), z=2, bound=size)


def _value(point: OutputElement) -> Expr:
    spec = point.spec
    acc = centred(point.here("x"), point.param("z", 0))
    factors = [point.param(name) for name in spec.scaled_by("m")]
    y = requantize(spec, acc, factors, point.param("z", 1), point.bounds)
    return _EXTREMES[spec.operator](y, point.param("bound", _offset(point)))


def _offset(point: OutputElement) -> Expr | int:
    """Return where in ``bound`` the element's constant lies."""
    offset: Expr | int = 0
    index = [i if axis != 1 else channel(point) for axis, i in enumerate(point.logical)]
    for i, extent in zip(index, point.spec.bound_shape, strict=True):
        offset = offset * extent + i if extent != 1 else offset
    return offset


_EXTREMES: dict[str, Callable[[Expr, Expr], Expr]] = {"max": tirx.max, "min": tirx.min}

BOUND = Body(kind="bound", layouts=first_layout, kernel=kernel)
