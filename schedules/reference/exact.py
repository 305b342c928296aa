"""The roundings of the numeric contract in NumPy: a fused multiply-add, requantization, shifts.

Sources: gemmlowp's fixedpoint.h (``SaturatingRoundingDoublingHighMul``, ``RoundingDivideByPOT``)
and TensorFlow Lite's ``MultiplyByQuantizedMultiplier``. Of ``fma``: S. Boldo and G. Melquiond,
"Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE
Transactions on Computers, 2008.
"""

from __future__ import annotations

import numpy as np

from schedules.spec import Rounding


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Return float32 ``a * b + c``, rounded once.

    The product of two float32 is exact in float64 (48 bits of 53). The sum is rounded to odd, which
    a second rounding to float32 cannot tell from the exact value, as 53 >= 24 + 2.
    """
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    addend = np.asarray(c, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.asarray(product + addend)
        shared = total - product
        error = (product - (total - shared)) + (addend - shared)
        towards = np.nextafter(total, np.copysign(np.inf, error))
        is_even = (total.view(np.int64) & 1) == 0
        is_inexact = np.isfinite(total) & (error != 0)
        return np.asarray(np.where(is_inexact & is_even, towards, total), np.float32)


def clamp(t: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return ``t`` clamped to float32 ``bounds`` (2,)."""
    return np.asarray(np.minimum(np.maximum(t, bounds[0]), bounds[1]))


def to_integer(t: np.ndarray, z: np.ndarray, bounds: np.ndarray, dtype: str) -> np.ndarray:
    """Return ``int(min(max(rint(t), bounds[0]), bounds[1])) + z``; float32 is clamped only."""
    if dtype == "float32":
        return clamp(t, bounds)
    return np.asarray(clamp(np.rint(t), bounds).astype(np.int32) + z, dtype)


def requantize(
    acc: np.ndarray, m: np.ndarray, z: np.ndarray, bounds: np.ndarray, dtype: str
) -> np.ndarray:
    """Return int32 ``acc`` times float32 ``m``, rounded half to even, clamped, plus ``z``."""
    return to_integer(acc.astype(np.float32) * m, z, bounds, dtype)


def requantize_fixed(
    product: np.ndarray,
    shift: np.ndarray,
    z: np.ndarray,
    bounds: np.ndarray,
    dtype: str,
    rounding: Rounding,
) -> np.ndarray:
    """Return int64 ``product`` shifted right, clamped to int32 ``bounds``, plus ``z``."""
    steps = shift_right(product, shift, rounding)
    return np.asarray(np.clip(steps, *bounds.astype(np.int64)) + z, dtype)


def shift_right(product: np.ndarray, shift: np.ndarray, rounding: Rounding) -> np.ndarray:
    """Return int64 ``product * 2**-shift``, rounded as ``rounding`` does.

    gemmlowp rounds twice: at bit 31, or at ``shift`` if that is less, halves up; then the rest,
    halves away from zero. tflite rounds once, halves up; tpu-mlir once, halves away from zero.

    Parameters
    ----------
    product
        Magnitudes up to 2**62 + 2**41.
    shift
        0 to 62.
    """
    product, shift = np.asarray(product, np.int64), np.asarray(shift, np.int64)
    if rounding == "tflite":
        return _half_up(product, shift)
    if rounding == "tpu-mlir":
        return _half_away(product, shift)
    first = np.minimum(shift, 31)
    return _half_away(_half_up(product, first), shift - first)


def _half_up(x: np.ndarray, shift: np.ndarray) -> np.ndarray:
    return np.asarray((x + ((np.int64(1) << shift) >> 1)) >> shift)


def _half_away(x: np.ndarray, shift: np.ndarray) -> np.ndarray:
    return np.asarray(np.sign(x) * _half_up(np.abs(x), shift))
