"""Add and multiply two activations.

    a, y : logical (n, c, ...) in one layout
    b    : the same layout; axes of extent 1 are broadcast
    m_a, m_b or m float32 (1,), z int32 (3,), clamp float32 (2,)

Exact:  add is one explicit fma, ``fma(float32(b - z_b), m_b, float32(a - z_a) * m_a)``. mul is
        exact in int32: the factors are below 2**9. Loops: see ``elementwise``.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr

from schedules.cpu.elementwise import default, elementwise_kernel, first_layout, refuses_kind, space
from schedules.expressions import Point, centred, clamp, fma, requantize, to_integer
from schedules.spec import Binary
from schedules.template import Layouts, ScheduleTemplate


def kernel(spec: Binary, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    value = {"add": _add, "mul": _mul}[spec.operator]
    if spec.a == "float32":
        value = _float
    return elementwise_kernel(spec, layouts, BINARY_CPU.name, value, z=3)


def _add(point: Point) -> Expr:
    z = [point.param("z", i) for i in range(3)]
    a, b = (centred(point.here(name), z[i]).astype("float32") for i, name in enumerate("ab"))
    t = fma(b, point.param("m_b"), a * point.param("m_a"))
    y = point.spec.dtype("y")
    return clamp(t, point.bounds) if y == "float32" else to_integer(t, z[2], point.bounds, y)


def _mul(point: Point) -> Expr:
    z = [point.param("z", i) for i in range(3)]
    product = centred(point.here("a"), z[0]) * centred(point.here("b"), z[1])
    return requantize(product, point.param("m"), z[2], point.bounds, point.spec.dtype("y"))


def _float(point: Point) -> Expr:
    a, b = point.here("a"), point.here("b")
    return clamp(a + b if point.spec.operator == "add" else a * b, point.bounds)


BINARY_CPU = ScheduleTemplate(
    name="binary_cpu",
    kind="binary",
    refuses=refuses_kind,
    layouts=first_layout,
    kernel=kernel,
    default=default,
    space=space,
)
