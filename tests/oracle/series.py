"""exp, tanh, erf, log, sin and cos of float32 as docs/design.md has them, bit for bit."""

from __future__ import annotations

import numpy as np

from tests.oracle.arithmetic import Array, fma
from tests.oracle.functions import LN2
from tests.oracle.functions import exp as exp_of_negative

F = np.float32
TAYLOR = tuple(1 / f for f in (5040, 720, 120, 24, 6, 2, 1, 1))
TANH = (-0.0057051431, 0.0206391722, -0.0537397138, 0.1333144164, -0.3333328188)
ERF = (
    7.852763e-05,
    -8.009911429e-04,
    5.188305691e-03,
    -2.685381058e-02,
    1.128358565e-01,
    -3.76126260e-01,
    1.1283791658,
)
ERFC = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
LOG = (
    -0.0763837447,
    0.1276380889,
    -0.1315960829,
    0.1420135840,
    -0.1662338606,
    0.2000124807,
    -0.2500082033,
    0.3333333144,
)
HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)


def exp(x: Array) -> Array:
    """Return e to the power of x."""
    a = np.minimum(np.maximum(x, F(-104)), F(89))
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        n = np.rint(a * F(1.4426950408889634))
        rest = a
        for part in LN2:
            rest = fma(n, np.asarray(-part), rest)
        whole = np.nan_to_num(n).astype(np.int32)
        half = whole // 2
        return _polynomial(TAYLOR, rest) * np.ldexp(F(1), half) * np.ldexp(F(1), whole - half)


def tanh(x: Array) -> Array:
    """Return the hyperbolic tangent of x."""
    with np.errstate(invalid="ignore", over="ignore"):
        square = x * x
        near = fma(x * square, _polynomial(TANH, square), x)
        e = _decay(np.abs(x) * F(-2))
        far = np.copysign((F(1) - e) / (F(1) + e), x)
    return np.where(np.abs(x) < F(0.625), near, far)


def erf(x: Array) -> Array:
    """Return the error function of x."""
    one = np.asarray(F(1))
    with np.errstate(invalid="ignore", over="ignore"):
        near = x * _polynomial(ERF, x * x)
        s = one / fma(np.asarray(F(0.3275911)), np.abs(x), one)
        far = fma(-(_polynomial(ERFC, s) * s), _decay(-(x * x)), one)
    return np.where(np.abs(x) < 1, near, np.copysign(far, x))


def log(x: Array) -> Array:
    """Return the natural logarithm of x."""
    with np.errstate(invalid="ignore", divide="ignore"):
        fraction, power = np.frexp(np.where((x > 0) & np.isfinite(x), x, F(1)))  # in [1/2, 1)
        below = fraction < np.sqrt(0.5).astype(F)
        f = np.where(below, fraction * 2, fraction) - F(1)
        k = (power - below).astype(F)
        inner = fma(f, _polynomial(LOG, f), np.asarray(F(-0.5)))
        y = fma(k, np.asarray(LN2[0]), fma(k, np.asarray(LN2[1]), f * f * inner) + f)
    y = np.where(np.isposinf(x), x, y)
    return np.where(x > 0, y, np.where(x == 0, F(-np.inf), F(np.nan)))


def sin(x: Array) -> Array:
    """Return the sine of x."""
    return _wave(x, 0)


def cos(x: Array) -> Array:
    """Return the cosine of x."""
    return _wave(x, 1)


def _wave(x: Array, ahead: int) -> Array:
    """Return the sine of x and so many quarters of a turn."""
    rest = a = np.clip(np.where(np.isfinite(x), x, F(0)), F(-(2**20)), F(2**20))
    n = np.rint(a * F(2 / np.pi))
    for part in HALF_PI:
        rest = fma(n, np.asarray(F(-part)), rest)
    square = rest * rest
    sine = fma(rest * square, _polynomial(SIN, square), rest)
    flat = fma(square, np.asarray(F(-0.5)), np.asarray(F(1)))
    cosine = fma(square * square, _polynomial(COS, square), flat)
    turn = n.astype(np.int64) + ahead
    y = np.where(turn % 2 == 1, cosine, sine)
    return np.where(np.isfinite(x), np.where(turn % 4 >= 2, -y, y), F(np.nan))


def _decay(argument: Array) -> Array:
    found = exp_of_negative(np.nan_to_num(np.maximum(argument, F(-87))))
    return np.where(np.isnan(argument), F(np.nan), found)


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    p = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        p = fma(p, x, np.asarray(F(coefficient)))
    return p
