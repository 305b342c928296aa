"""NumPy reference of requantization: one multiplier, or one for each sign, or two that add.

A multiplier is its factors: ``(m,)`` float32, or ``(m, shift)`` int32 where a spec is fixed-point.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from schedules.reference.exact import fma, requantize, requantize_fixed, shift_right, to_integer
from schedules.reference.functions import activated
from schedules.spec import Binary, Conv2d, Dense
from schedules.spec.requantizing import Requantizing
from schedules.template import Arrays

Factors = tuple[np.ndarray, ...]
HEADROOM = 20  # bits that TensorFlow Lite's add gives its operands


def factors(
    spec: Requantizing, params: Arrays, name: str, shape: tuple[int, ...] | None = None
) -> Factors:
    """Return multiplier ``name``, reshaped if there is a ``shape``."""
    factors = (params[part] for part in spec.scaled_by(name))
    return tuple(part if shape is None else part.reshape(shape) for part in factors)


def by_sign(acc: np.ndarray, factors: Factors, below_zero: Factors) -> Factors:
    """Return for each element the factors of its sign."""
    pairs = zip(factors, below_zero, strict=True)
    return tuple(np.where(acc < 0, negative, positive) for positive, negative in pairs)


def scale(
    spec: Any, acc: np.ndarray, factors: Factors, z: np.ndarray, bounds: np.ndarray
) -> np.ndarray:
    """Return int32 ``acc`` times ``factors``, rounded, clamped, plus ``z``."""
    if spec.rounding is None:
        return requantize(acc, factors[0], z, bounds, spec.y)
    m, shift = factors
    return requantize_fixed(_wide(acc) * m, shift, z, bounds, spec.y, spec.rounding)


def add(spec: Binary, a: np.ndarray, b: np.ndarray, params: Arrays) -> np.ndarray:
    """Return the sum of two activations, given as ``q - z``."""
    z_y, bounds = params["z"][2], params["clamp"]
    if spec.rounding is None:
        addend = a.astype(np.float32) * params["m_a"]
        t = fma(b.astype(np.float32), params["m_b"], addend)
        return to_integer(t, z_y, bounds, spec.y)
    shift = params["shift"]
    if spec.rounding == "tpu-mlir":
        product = _wide(a) * params["m_a"] + _wide(b) * params["m_b"]
    else:
        scaled = (
            shift_right((_wide(q) << HEADROOM) * m, right, spec.rounding)
            for q, (m, right) in (
                (a, factors(spec, params, "m_a")),
                (b, factors(spec, params, "m_b")),
            )
        )
        product = sum(scaled) * _wide(params["m"])
    return requantize_fixed(product, shift, z_y, bounds, spec.y, spec.rounding)


def epilogue(
    spec: Conv2d | Dense, acc: np.ndarray, params: Arrays, r: np.ndarray | None
) -> np.ndarray:
    """Return y of int32 sums that hold the bias; channels are axis 1, ``r`` is ``q - z``."""
    shape = (1, -1, *(1,) * (acc.ndim - 2))
    z_y, bounds = params["z"][1], params["clamp"]
    if r is not None and spec.rounding:
        m, m_neg = (params.get(name, params["m"]).reshape(shape) for name in ("m", "m_neg"))
        product = _wide(acc) * np.where(acc < 0, m_neg, m)
        product = product + _wide(r) * params["m_add"].reshape(shape)
        shift = params["shift"].reshape(shape)
        return requantize_fixed(product, shift, z_y, bounds, spec.y, spec.rounding)
    sum_first = isinstance(spec, Conv2d) and spec.sum_first
    multiplier = factors(spec, params, "m", shape)
    if spec.leaky and not sum_first:
        multiplier = by_sign(acc, multiplier, factors(spec, params, "m_neg", shape))
    if r is None and spec.activation is None:
        return scale(spec, acc, multiplier, z_y, bounds)
    t = acc.astype(np.float32) * multiplier[0]
    if spec.activation and not sum_first:
        t = in_steps(spec, activated(spec.activation, t), params)
    if r is not None:
        t = fma(r.astype(np.float32), params["m_r"], t)
    if isinstance(spec, Conv2d) and spec.sum_first:
        t = of_sum(spec, t, params)
    return to_integer(t, z_y, bounds, spec.y)


def in_steps(spec: Conv2d | Dense, values: np.ndarray, params: Arrays) -> np.ndarray:
    """Return float32 values of a function in steps of y; channels are axis 1."""
    shape = (1, -1, *(1,) * (values.ndim - 2))
    m_y = params["m_y"].reshape(shape)
    return fma(values, m_y, params["b_y"].reshape(shape)) if spec.shifted else values * m_y


def of_sum(spec: Conv2d, total: np.ndarray, params: Arrays) -> np.ndarray:
    """Return a slope or a function of float32 sums with the residual; channels are axis 1."""
    shape = (1, -1, *(1,) * (total.ndim - 2))
    if spec.activation:
        values = in_steps(spec, activated(spec.activation, total), params)
    else:
        values = np.where(total < 0, total * params["alpha"].reshape(shape), total)
    return np.asarray(values)


def _wide(x: np.ndarray) -> np.ndarray:
    return np.asarray(x, np.int64)
