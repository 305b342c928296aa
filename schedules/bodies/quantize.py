"""Enter the integers: float32 to int8 or uint8, and to the layout that follows, in one pass.

    x : float32, logical any shape, any layout
    y : int8 or uint8, any layout
    s float32 (1,), z int32 (1,), clamp float32 (2,)

Exact:  a true float32 division, clamped, rounded half to even. Loops: see ``elementwise``.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.body import Body
from schedules.bodies.elementwise import any_layouts, elementwise_kernel
from schedules.bodies.expressions import OutputElement, to_integer
from schedules.spec import Quantize
from schedules.template import Layouts


def kernel(spec: Quantize, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    return elementwise_kernel(spec, layouts, _quantize)


def _quantize(point: OutputElement) -> Expr:
    t = point.here("x") / point.param("s")
    return to_integer(t, point.param("z"), point.bounds, point.spec.dtype("y"))


QUANTIZE = Body(kind="quantize", layouts=any_layouts, kernel=kernel)
