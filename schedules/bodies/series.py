"""exp, tanh, erf, log, sin and cos of a float32 number, as expressions that compilers vectorize.

What TVM writes for these calls the C library for each element. Here every operation is written
out, so that LLVM takes a vector of elements at a time, and rounds alike on all targets.

Exact:  as docs/design.md writes them down. What is not a number stays so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.exponential import exp as exp_of_negative
from schedules.bodies.expressions import blend
from schedules.bodies.steps import Steps
from schedules.bodies.vectors import f32, fma, rint
from schedules.spec.functions import (
    COS_SERIES,
    ERF_SERIES,
    ERFC_SERIES,
    ERFC_STEP,
    EXP_RANGE,
    EXP_SERIES,
    GREATEST_ANGLE,
    HALF_PI,
    LEAST_EXP_ARGUMENT,
    LEAST_MANTISSA_BITS,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    LOG_SERIES,
    SERIES_END,
    SIN_SERIES,
    SUBNORMAL_STEPS,
    TANH_SERIES,
)

SIGN, MANTISSA, BIAS = -(1 << 31), (1 << 23) - 1, 127


def exp(x: Expr) -> Expr:
    """Return exp of ``x``; 0 far below 0, infinity far above."""
    steps = Steps()
    least, greatest = map(f32, EXP_RANGE)
    # In this order of operands what is not a number passes.
    a = steps.hold(tirx.min(greatest, tirx.max(least, x)))
    whole = steps.hold(rint(a * f32(LOG2_E)))
    n = steps.hold(whole.astype("float32"))
    r = steps.hold(fma(n, f32(-LN2_LOW), fma(n, f32(-LN2_HIGH), a)))
    half = steps.hold(whole >> 1)
    return steps.then(_series(EXP_SERIES, r) * _power_of_two(half) * _power_of_two(whole - half))


def tanh(x: Expr) -> Expr:
    """Return the hyperbolic tangent of ``x``."""
    steps = Steps()
    x = steps.hold(x)
    a = steps.hold(_magnitude(x))
    z = steps.hold(x * x)
    near = fma(x * z, _series(TANH_SERIES, z), x)
    # -2 |x| in this order: a limit first, so that what is not a number passes.
    argument = steps.hold(tirx.max(f32(LEAST_EXP_ARGUMENT), a * f32(-2)))
    e = steps.hold(exp_of_negative(argument, steps.hold))
    far = _with_sign((f32(1) - e) / (f32(1) + e), x)
    return steps.then(blend(a < f32(SERIES_END["tanh"]), near, far))


def erf(x: Expr) -> Expr:
    """Return the error function of ``x``."""
    steps = Steps()
    x = steps.hold(x)
    a = steps.hold(_magnitude(x))
    near = x * _series(ERF_SERIES, steps.hold(x * x))
    s = steps.hold(f32(1) / fma(f32(ERFC_STEP), a, f32(1)))
    argument = steps.hold(tirx.max(f32(LEAST_EXP_ARGUMENT), a * (f32(0) - a)))
    e = exp_of_negative(argument, steps.hold)
    far = _with_sign(fma(f32(0) - _series(ERFC_SERIES, s) * s, e, f32(1)), x)
    return steps.then(blend(a < f32(SERIES_END["erf"]), near, far))


def log(x: Expr) -> Expr:
    """Return the natural logarithm of ``x``; minus infinity of 0, no number below."""
    steps = Steps()
    x = steps.hold(x)
    a = steps.hold(_magnitude(x))
    raw = tirx.reinterpret("int32", a)
    # All bits set where x is subnormal, by shifts: TVM's vectors cannot hold what a comparison is.
    small = steps.hold(((raw >> 23) - 1) >> 31)
    scaled = tirx.reinterpret("int32", a * f32(2.0**SUBNORMAL_STEPS))
    bits = steps.hold(((scaled & small) | (raw & ~small)) - LEAST_MANTISSA_BITS)
    k = steps.hold(((bits >> 23) - (small & SUBNORMAL_STEPS)).astype("float32"))
    mantissa = tirx.reinterpret("float32", (bits & MANTISSA) + LEAST_MANTISSA_BITS)
    f = steps.hold(mantissa - f32(1))
    tail = steps.hold(f * f) * fma(f, _series(LOG_SERIES, f), f32(-0.5))
    y = fma(k, f32(LN2_HIGH), fma(k, f32(LN2_LOW), tail) + f)
    ends = blend(x.equal(f32(0)), f32(float("-inf")), f32(float("nan")))
    is_finite = x < f32(float("inf"))  # and no other than numbers
    return steps.then(blend(x > f32(0), blend(is_finite, y, x), ends))


def sin(x: Expr) -> Expr:
    """Return the sine of ``x``; no number of infinity."""
    return _wave(x, 0)


def cos(x: Expr) -> Expr:
    """Return the cosine of ``x``; no number of infinity."""
    return _wave(x, 1)


def _wave(x: Expr, ahead: int) -> Expr:
    """Return the sine of ``x`` and so many quarters of a turn."""
    steps = Steps()
    x = steps.hold(x)
    a = steps.hold(tirx.min(f32(GREATEST_ANGLE), tirx.max(f32(-GREATEST_ANGLE), x)))
    quarters = steps.hold(rint(a * f32(2 / math.pi)))
    r, n = a, steps.hold(quarters.astype("float32"))
    for part in HALF_PI:
        r = fma(n, f32(-part), r)
    r = steps.hold(r)
    z = steps.hold(r * r)
    sine = fma(r * z, _series(SIN_SERIES, z), r)
    cosine = fma(z * z, _series(COS_SERIES, z), fma(z, f32(-0.5), f32(1)))
    turn = steps.hold(quarters + ahead)
    # All bits set where the turn is odd: TVM's vectors cannot hold what a comparison is.
    odd = steps.hold(tirx.const(0, "int32") - (turn & 1))
    bits = (tirx.reinterpret("int32", cosine) & odd) | (tirx.reinterpret("int32", sine) & ~odd)
    y = tirx.reinterpret("float32", bits ^ ((turn << 30) & tirx.const(SIGN, "int32")))
    is_finite = _magnitude(x) < f32(float("inf"))  # and no other than numbers
    return steps.then(blend(is_finite, y, f32(float("nan"))))


FUNCTIONS: dict[str, Callable[[Expr], Expr]] = {
    "exp": exp,
    "tanh": tanh,
    "erf": erf,
    "log": log,
    "sin": sin,
    "cos": cos,
}
"""TVM's name of a function -> the function."""


def _series(coefficients: Sequence[float], x: Expr) -> Expr:
    p = f32(coefficients[0])
    for coefficient in coefficients[1:]:
        p = fma(p, x, f32(coefficient))
    return p


def _power_of_two(k: Expr) -> Expr:
    return tirx.reinterpret("float32", (k + BIAS) << 23)


def _magnitude(x: Expr) -> Expr:
    return tirx.reinterpret("float32", tirx.reinterpret("int32", x) & ~SIGN)


def _with_sign(magnitude: Expr, x: Expr) -> Expr:
    sign = tirx.reinterpret("int32", x) & tirx.const(SIGN, "int32")
    return tirx.reinterpret("float32", tirx.reinterpret("int32", magnitude) | sign)
