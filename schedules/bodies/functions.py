"""Functions of float32 in any layout: the logistic function and GELU.

    x, y : float32, logical any shape in one layout; lanes past the last channel of y are 0

Exact:  bit-identical to the specification, which no library's exp or erf is on all targets. Loops:
        see ``elementwise``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tvm import te, tirx
from tvm.tirx import Expr

from schedules.bodies.body import Body
from schedules.bodies.elementwise import elementwise_kernel, first_layout
from schedules.bodies.exponential import exp
from schedules.bodies.expressions import OutputElement
from schedules.bodies.vectors import f32, fma
from schedules.spec import Gelu, Sigmoid
from schedules.spec.functions import ERFC_SERIES, ERFC_STEP, LEAST_EXP_ARGUMENT
from schedules.template import Layouts


def sigmoid(x: Expr) -> Expr:
    """Return the logistic function of a float32 number."""
    one = f32(1)
    e = exp(te.max(te.min(x, f32(0) - x), f32(LEAST_EXP_ARGUMENT)))
    return tirx.Select(x >= f32(0), one, e) / (one + e)


def gelu(x: Expr) -> Expr:
    """Return GELU of a float32 number."""
    zero = f32(0)
    z = te.max(x, zero - x) * f32(math.sqrt(0.5))
    s = f32(1) / fma(f32(ERFC_STEP), z, f32(1))
    p = f32(ERFC_SERIES[0])
    for coefficient in ERFC_SERIES[1:]:
        p = fma(p, s, f32(coefficient))
    e = exp(te.max(z * (zero - z), f32(LEAST_EXP_ARGUMENT)))
    c = p * s * e * f32(0.5)
    return tirx.Select(x >= zero, fma(zero - x, c, x), x * c)


def _body(kind: str, function: Callable[[Expr], Expr]) -> Body:
    def _value(point: OutputElement) -> Expr:
        return function(point.here("x"))

    def _kernel(spec: Sigmoid | Gelu, layouts: Layouts) -> tirx.PrimFunc:
        return elementwise_kernel(spec, layouts, _value)

    return Body(kind=kind, layouts=first_layout, kernel=_kernel)


SIGMOID = _body("sigmoid", sigmoid)
GELU = _body("gelu", gelu)
