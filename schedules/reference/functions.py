"""NumPy reference of functions of float32."""

from __future__ import annotations

import numpy as np

from schedules.reference.exact import fma
from schedules.spec import Sigmoid
from schedules.spec.functions import EXP_SERIES, LN2_HIGH, LN2_LOW, LOG2_E, SMALLEST
from schedules.template import Arrays


def sigmoid(spec: Sigmoid, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return the logistic function of x, bit for bit."""
    x, one = tensors["x"], np.float32(1)
    e = exp(np.maximum(-np.abs(x), np.float32(SMALLEST)))
    return np.asarray(np.where(x >= 0, one, e) / (one + e))


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
