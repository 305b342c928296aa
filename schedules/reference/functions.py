"""NumPy reference of functions of float32."""

from __future__ import annotations

import numpy as np

from schedules.reference.exact import fma
from schedules.spec import GATES, GATES_ALONE, Activation, Gelu, Sigmoid
from schedules.spec.functions import (
    ERFC_SERIES,
    ERFC_STEP,
    EXP_SERIES,
    LEAST_EXP_ARGUMENT,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
)
from schedules.template import Arrays


def sigmoid(spec: Sigmoid, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return the logistic function of x, bit for bit."""
    x, one = tensors["x"], np.float32(1)
    e = exp(np.maximum(-np.abs(x), np.float32(LEAST_EXP_ARGUMENT)))
    return np.asarray(np.where(x >= 0, one, e) / (one + e))


def gelu(spec: Gelu, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return GELU of x, bit for bit."""
    x, one = tensors["x"], np.float32(1)
    z = np.abs(x) * np.float32(np.sqrt(0.5))
    s = one / fma(_number(ERFC_STEP), z, _number(1))
    p = np.full_like(s, ERFC_SERIES[0])
    for coefficient in ERFC_SERIES[1:]:
        p = fma(p, s, _number(coefficient))
    with np.errstate(over="ignore"):
        e = exp(np.maximum(-(z * z), np.float32(LEAST_EXP_ARGUMENT)))
    c = p * s * e * np.float32(0.5)
    return np.asarray(np.where(x >= 0, fma(-x, c, x), x * c))


def activated(name: Activation, x: np.ndarray) -> np.ndarray:
    """Return what an epilogue makes of float32 ``x``, bit for bit."""
    gate, zero, one = GATES[name], _number(0), _number(1)
    negative = -np.abs(x)
    argument = np.maximum(negative, _number(-gate.limit))
    p = np.full_like(argument, gate.series[0])
    for coefficient in gate.series[1:]:
        p = fma(p, argument, _number(coefficient))
    for _ in range(gate.squarings - 1):
        p = p * p
    rest = p if gate.squarings else one
    if name in GATES_ALONE:
        return np.asarray(np.where(x >= zero, fma(zero - p, rest, one), p * rest))
    return fma(negative, p * rest, np.maximum(x, zero))


def exp(a: np.ndarray) -> np.ndarray:
    """Return exp of float32 ``a``, from -87 to 0, bit for bit."""
    n = np.rint(a * np.float32(LOG2_E))
    r = fma(n, _number(-LN2_LOW), fma(n, _number(-LN2_HIGH), a))
    p = np.full_like(r, EXP_SERIES[0])
    for coefficient in EXP_SERIES[1:]:
        p = fma(p, r, _number(coefficient))
    return np.asarray((p.view(np.int32) + (n.astype(np.int32) << 23)).view(np.float32))


def _number(value: float) -> np.ndarray:
    return np.array(value, np.float32)
