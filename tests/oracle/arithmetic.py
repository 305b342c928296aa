"""The scalar arithmetic of the numeric contract (docs/design.md), on arrays.

Real numbers are s * (q - z). Multipliers are born in float64 and rounded once to float32; what a
kernel does at run time is float32, one rounding per operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Params:
    """How one tensor is quantized; s float32 and z int64 are scalars, or (channels,) on axis."""

    s: Array
    z: Array
    axis: int
    qmin: int
    qmax: int
    dtype: str

    def along(self, values: Array, rank: int) -> Array:
        """Return s or z so that it broadcasts against a tensor of ``rank`` axes."""
        return along(values, self.axis, rank)


def along(values: Array, axis: int, rank: int) -> Array:
    """Return a scalar, or a vector reshaped to lie on ``axis`` of a tensor of ``rank`` axes."""
    if values.size == 1:
        return values.reshape(())
    shape = [1] * rank
    shape[axis] = values.size
    return values.reshape(shape)


def quantize(x: Array, y: Params) -> Array:
    """Quantize at run time: a float32 division, half to even, clamped before the conversion."""
    with np.errstate(over="ignore"):
        t = np.rint(x.astype(np.float32) / y.along(y.s, x.ndim))
    return _to_integer(t, y, -np.inf, np.inf)


def quantize_constant(x: Array, y: Params) -> Array:
    """Quantize at compile time (weights): the division is float64."""
    return _to_integer(np.rint(x.astype(np.float64) / y.along(y.s, x.ndim)), y, -np.inf, np.inf)


def dequantize(q: Array, x: Params) -> Array:
    """Return ``float32(q - z) * s``."""
    steps = q.astype(np.int64) - x.along(x.z, q.ndim)
    return steps.astype(np.float32) * x.along(x.s, q.ndim)


def multiplier(real: Array | float) -> Array:
    """Round a float64 multiplier to float32; it must stay finite."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = np.asarray(real, np.float64).astype(np.float32)
    if not np.isfinite(rounded).all():
        raise ValueError(f"multiplier {np.max(real)} is not finite in float32")
    return rounded


def scaled(acc: Array, m: Array) -> Array:
    """Return ``float32(acc) * m`` in float32."""
    with np.errstate(over="ignore", under="ignore"):
        return acc.astype(np.float32) * m


def fma(a: Array, b: Array, c: Array) -> Array:
    """Return float32 ``a * b + c`` with one rounding.

    The product of two float32 is exact in float64. TwoSum gives the float64 sum and its error;
    rounding that sum to odd makes the second rounding, to float32, come out as if it were the only
    one (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    with np.errstate(invalid="ignore"):  # an addend that overflowed float32 is infinite
        total = np.asarray(product + addend)
        part = total - product
        error = (product - (total - part)) + (addend - part)
    is_even = (total.view(np.int64) & 1) == 0
    odd_neighbour = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    odd = np.where((np.nan_to_num(error) != 0) & is_even, odd_neighbour, total)
    with np.errstate(over="ignore", under="ignore"):
        return odd.astype(np.float32)


def round_and_clamp(t: Array, y: Params, low: float, high: float) -> Array:
    """Return integers from ``t``, float32 in steps of y; low and high are real bounds (clip)."""
    s = np.float64(y.s.reshape(()))
    return _to_integer(np.rint(t), y, np.rint(low / s), np.rint(high / s))


def _to_integer(t: Array, y: Params, low: float, high: float) -> Array:
    if np.isnan(t).any():
        raise ValueError("NaN has no integer; repair the data or the model")
    z = y.along(y.z, t.ndim)
    bounds = [np.clip(bound, y.qmin - z, y.qmax - z).astype(t.dtype) for bound in (low, high)]
    return (np.minimum(np.maximum(t, bounds[0]), bounds[1]).astype(np.int64) + z).astype(y.dtype)
