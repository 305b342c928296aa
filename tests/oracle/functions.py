"""The logistic function and GELU as docs/design.md has it for float32: one way to round, on every target."""

from __future__ import annotations

import math

import numpy as np

from tests.oracle.arithmetic import Array, fma

LN2 = (np.float32(0.693359375), np.float32(-2.12194440e-4))


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)); float32 bit for bit, other types as NumPy has it."""
    if x.dtype != np.float32:
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-x)))
    e = exp(np.maximum(-np.abs(x), np.float32(-87)))
    return np.where(x >= 0, np.float32(1), e) / (np.float32(1) + e)


def exp(towards_zero: Array) -> Array:
    """Return exp of float32 from -87 to 0, bit for bit."""
    power = np.rint(towards_zero * np.float32(1 / math.log(2)))
    rest = towards_zero
    for part in LN2:
        rest = fma(power, np.asarray(-part), rest)
    series = np.zeros_like(rest)
    for k in range(7, -1, -1):
        series = fma(series, rest, np.asarray(np.float32(1 / math.factorial(k))))
    return np.asarray(np.ldexp(series, power.astype(np.int32)))


def gelu(x: Array) -> Array:
    """Return x times the normal distribution; float32 bit for bit, other types as NumPy has it."""
    if x.dtype != np.float32:
        erf = np.vectorize(math.erf, otypes=[x.dtype])
        return np.asarray(x * (1 + erf(x * math.sqrt(0.5))) / 2)
    z = np.abs(x) * np.float32(math.sqrt(0.5))
    one = np.asarray(np.float32(1))
    s = one / fma(np.asarray(np.float32(0.3275911)), z, one)
    series = np.zeros_like(s)
    for a in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = fma(series, s, np.asarray(np.float32(a)))
    tail = series * s * exp(np.maximum(-(z * z), np.float32(-87))) * np.float32(0.5)
    return np.where(x >= 0, fma(-x, tail, x), x * tail)
