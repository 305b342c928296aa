"""Any unary function of an integer tensor, by its 256 values.

    x, y  : logical, any shape, in one layout
    table : (256,) of y's type, indexed by x, or x + 128 where x is int8

Exact:  a load. Loops: see ``elementwise``.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.cpu.elementwise import default, elementwise_kernel, first_layout, refuses_kind, space
from schedules.expressions import Point
from schedules.spec import Table
from schedules.template import Layouts, ScheduleTemplate


def kernel(spec: Table, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    return elementwise_kernel(spec, layouts, TABLE_CPU.name, _lookup, table=256)


def _lookup(point: Point) -> Expr:
    x = point.here("x").astype("int32")
    return point.param("table", x + 128 if point.spec.dtype("x") == "int8" else x)


TABLE_CPU = ScheduleTemplate(
    name="table_cpu",
    kind="table",
    refuses=refuses_kind,
    layouts=first_layout,
    kernel=kernel,
    default=default,
    space=space,
    x_types=("uint8", "int8"),
)
