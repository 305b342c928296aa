"""GELU of float32, in any layout.

    x, y : float32, logical any shape; y in any layout, lanes past the last channel are 0

Exact:  bit-identical to the specification, which no library's erf is on all targets. Loops: see
        ``elementwise``.
"""

from __future__ import annotations

import math

from tvm import te, tirx
from tvm.tirx import Expr

from schedules.bodies.body import Body
from schedules.bodies.elementwise import any_layouts, elementwise_kernel
from schedules.bodies.exponential import exp
from schedules.bodies.expressions import Point, fma
from schedules.spec import Gelu
from schedules.spec.functions import ERFC_SERIES, ERFC_STEP, SMALLEST
from schedules.template import Layouts


def kernel(spec: Gelu, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    return elementwise_kernel(spec, layouts, _gelu)


def _gelu(point: Point) -> Expr:
    x, zero = point.here("x"), _number(0)
    z = te.max(x, zero - x) * _number(math.sqrt(0.5))
    s = _number(1) / fma(_number(ERFC_STEP), z, _number(1))
    p = _number(ERFC_SERIES[0])
    for coefficient in ERFC_SERIES[1:]:
        p = fma(p, s, _number(coefficient))
    e = exp(te.max(z * (zero - z), _number(SMALLEST)))
    c = p * s * e * _number(0.5)
    return tirx.Select(x >= zero, fma(zero - x, c, x), x * c)


def _number(value: float) -> Expr:
    return tirx.const(value, "float32")


GELU = Body(kind="gelu", layouts=any_layouts, kernel=kernel, x_types=("float32",))
