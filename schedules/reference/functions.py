"""NumPy reference of functions of float32."""

from __future__ import annotations

import numpy as np

from schedules.reference.exact import fma
from schedules.spec import Gelu, Sigmoid
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
