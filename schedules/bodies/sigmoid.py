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
from schedules.bodies.exponential import exp
from schedules.bodies.expressions import Point
from schedules.spec import Sigmoid
from schedules.spec.functions import SMALLEST
from schedules.template import Layouts


def kernel(spec: Sigmoid, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    return elementwise_kernel(spec, layouts, _sigmoid)


def _sigmoid(point: Point) -> Expr:
    x, one = point.here("x"), _number(1)
    e = exp(te.max(te.min(x, _number(0) - x), _number(SMALLEST)))
    return tirx.Select(x >= _number(0), one, e) / (one + e)


def _number(value: float) -> Expr:
    return tirx.const(value, "float32")


SIGMOID = Body(kind="sigmoid", layouts=any_layouts, kernel=kernel, x_types=("float32",))
