"""Leave the integers: int8 or uint8 to float32, from any layout to any layout in one pass.

    x : int8 or uint8, logical any shape, any layout
    y : float32, any layout; lanes past the last channel are 0
    s float32 (1,), z int32 (1,)

Exact:  ``float32(x - z) * s``. Loops: see ``elementwise``.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.cpu.elementwise import any_layouts, default, elementwise_kernel, refuses_kind, space
from schedules.expressions import Point, centred
from schedules.spec import Dequantize
from schedules.template import Layouts, ScheduleTemplate


def kernel(spec: Dequantize, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    return elementwise_kernel(spec, layouts, DEQUANTIZE_CPU.name, _dequantize)


def _dequantize(point: Point) -> Expr:
    return centred(point.here("x"), point.param("z")).astype("float32") * point.param("s")


DEQUANTIZE_CPU = ScheduleTemplate(
    name="dequantize_cpu",
    kind="dequantize",
    refuses=refuses_kind,
    layouts=any_layouts,
    kernel=kernel,
    default=default,
    space=space,
    x_types=("uint8", "int8"),
)
