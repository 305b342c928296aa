"""The logistic function of float32, in any layout.

    x, y : float32, logical any shape; y in any layout, lanes past the last channel are 0

Exact:  bit-identical to the specification, which no library's exp is on all targets. Loops: see
        ``elementwise``.
"""

from __future__ import annotations

from tvm import te, tirx
from tvm.tirx import Expr

from schedules.bodies.body import Body
from schedules.bodies.elementwise import any_layouts, elementwise_kernel
from schedules.bodies.expressions import Point, fma
from schedules.spec import Sigmoid
from schedules.spec.functions import EXP_SERIES, LN2_HIGH, LN2_LOW, LOG2_E, SMALLEST
from schedules.template import Layouts


def kernel(spec: Sigmoid, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    return elementwise_kernel(spec, layouts, _sigmoid)


def _sigmoid(point: Point) -> Expr:
    x, one = point.here("x"), _number(1)
    e = _exp(te.max(te.min(x, _number(0) - x), _number(SMALLEST)))
    return tirx.Select(x >= _number(0), one, e) / (one + e)


def _exp(a: Expr) -> Expr:
    """Return exp of ``a``, from -87 to 0."""
    whole = tirx.call_llvm_pure_intrin("int32", "llvm.lrint", a * _number(LOG2_E))
    n = whole.astype("float32")
    r = fma(n, _number(-LN2_LOW), fma(n, _number(-LN2_HIGH), a))
    p = _number(EXP_SERIES[0])
    for coefficient in EXP_SERIES[1:]:
        p = fma(p, r, _number(coefficient))
    bits = tirx.reinterpret("int32", p) + whole * tirx.const(1 << 23, "int32")
    return tirx.reinterpret("float32", bits)


def _number(value: float) -> Expr:
    return tirx.const(value, "float32")


SIGMOID = Body(kind="sigmoid", layouts=any_layouts, kernel=kernel, x_types=("float32",))
