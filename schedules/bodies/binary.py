"""Add, multiply and divide two activations, take the greater or the lesser of them.

    a, y : logical (n, c, ...) in one layout
    b    : the same layout; axes of extent 1 are broadcast
    m_a, m_b or m float32 (1,), z int32 (3,), clamp float32 (2,); fixed-point: all int32
    a and b float32: clamp float32 (2,), and where y is an integer s float32 (1,), z int32 (1,)

Exact:  add is one explicit fma, ``fma(float32(b - z_b), m_b, float32(a - z_a) * m_a)``. mul is
        exact in int32: the factors are below 2**9; so is fixed-point in int64. div is one
        IEEE division, then one product. max and min compare integers of y. Loops: see
        ``elementwise``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies import fixed_point
from schedules.bodies.body import Body
from schedules.bodies.elementwise import elementwise_kernel, first_layout
from schedules.bodies.expressions import OutputElement, centred, clamp, requantize, to_integer
from schedules.bodies.fixed_point import shift_right, wide
from schedules.bodies.vectors import fma
from schedules.spec import ZERO_DIVISOR, Binary, Rounding
from schedules.template import Layouts

HEADROOM = 20  # bits that TensorFlow Lite's add gives its operands, of 9 bits each


def kernel(spec: Binary, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    value = _float if spec.a == "float32" else _INTEGER[spec.operator]
    return elementwise_kernel(spec, layouts, value, z=len(spec.zero_points))


def _add(point: OutputElement) -> Expr:
    rounding = point.spec.rounding
    if rounding:
        return _add_fixed(point, rounding)
    z = [point.param("z", i) for i in range(3)]
    a, b = (centred(point.here(name), z[i]).astype("float32") for i, name in enumerate("ab"))
    t = fma(b, point.param("m_b"), a * point.param("m_a"))
    y = point.spec.dtype("y")
    return clamp(t, point.bounds) if y == "float32" else to_integer(t, z[2], point.bounds, y)


def _add_fixed(point: OutputElement, rounding: Rounding) -> Expr:
    z = [point.param("z", i) for i in range(3)]
    a, b = (wide(centred(point.here(name), z[i])) for i, name in enumerate("ab"))
    m_a, m_b, shift = (point.param(name) for name in ("m_a", "m_b", "shift"))
    if rounding == "tpu-mlir":
        total = a * wide(m_a) + b * wide(m_b)
    else:
        a, b = (
            shift_right((q << HEADROOM) * wide(m), wide(point.param(name)), rounding)
            for q, m, name in ((a, m_a, "shift_a"), (b, m_b, "shift_b"))
        )
        total = (a + b) * wide(point.param("m"))
    return fixed_point.to_integer(total, shift, z[2], point.bounds, point.spec.y, rounding)


def _mul(point: OutputElement) -> Expr:
    z = [point.param("z", i) for i in range(3)]
    product = centred(point.here("a"), z[0]) * centred(point.here("b"), z[1])
    factors = [point.param(name) for name in point.spec.scaled_by("m")]
    return requantize(point.spec, product, factors, z[2], point.bounds)


def _div(point: OutputElement) -> Expr:
    dividend, divisor = "ab" if point.spec.operator == "div" else "ba"
    z = dict(zip("aby", (point.param("z", i) for i in range(3)), strict=True))
    steps = centred(point.here(dividend), z[dividend]).astype("float32")
    quotient = steps / _not_zero(centred(point.here(divisor), z[divisor]))
    t, y = quotient * point.param("m"), point.spec.dtype("y")
    bounds = point.bounds
    return clamp(t, bounds) if y == "float32" else to_integer(t, z["y"], bounds, y)


def _not_zero(steps: Expr) -> Expr:
    """Return int32 steps as float32, ``ZERO_DIVISOR`` for zero, whose own bits are none."""
    bits = tirx.reinterpret("int32", steps.astype("float32"))
    instead = steps.equal(0).astype("int32") * int(np.float32(ZERO_DIVISOR).view(np.int32))
    return tirx.reinterpret("float32", bits | instead)


def _extreme(point: OutputElement) -> Expr:
    q = [
        requantize(
            point.spec,
            centred(point.here(name), point.param("z", i)),
            [point.param(factor) for factor in point.spec.scaled_by(f"m_{name}")],
            point.param("z", 2),
            point.bounds,
        )
        for i, name in enumerate("ab")
    ]
    return FLOAT_OPERATORS[point.spec.operator](*q)


def _float(point: OutputElement) -> Expr:
    t, y = FLOAT_OPERATORS[point.spec.operator](point.here("a"), point.here("b")), point.spec.y
    if y == "float32":
        return clamp(t, point.bounds)
    return to_integer(t / point.param("s"), point.param("z"), point.bounds, y)


_INTEGER: dict[str, Callable[[OutputElement], Expr]] = {
    "add": _add,
    "mul": _mul,
    "div": _div,
    "rdiv": _div,
    "max": _extreme,
    "min": _extreme,
}
FLOAT_OPERATORS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": operator.add,
    "mul": operator.mul,
    "div": operator.truediv,
    "rdiv": lambda a, b: b / a,
    "max": tirx.max,
    "min": tirx.min,
}


BINARY = Body(kind="binary", layouts=first_layout, kernel=kernel)
