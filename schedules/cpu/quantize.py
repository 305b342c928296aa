"""Enter the integers: float32 to int8 or uint8, and to the layout that follows, in one pass.

    x : float32, logical any shape, any layout
    y : int8 or uint8, any layout
    s float32 (1,), z int32 (1,), clamp float32 (2,)

Exact:  a true float32 division, clamped, rounded half to even. Loops: see ``elementwise``.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.cpu.elementwise import any_layouts, default, elementwise_kernel, refuses_kind, space
from schedules.expressions import Point, to_integer
from schedules.spec import Quantize
from schedules.template import Layouts, ScheduleTemplate


def kernel(spec: Quantize, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    return elementwise_kernel(spec, layouts, QUANTIZE_CPU.name, _quantize)


def _quantize(point: Point) -> Expr:
    t = point.here("x") / point.param("s")
    return to_integer(t, point.param("z"), point.bounds, point.spec.dtype("y"))


QUANTIZE_CPU = ScheduleTemplate(
    name="quantize_cpu",
    kind="quantize",
    refuses=refuses_kind,
    layouts=any_layouts,
    kernel=kernel,
    default=default,
    space=space,
    x_types=("float32",),
)
