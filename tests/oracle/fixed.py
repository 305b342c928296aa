"""Fixed-point requantization as its sources write it, on whole arrays.

gemmlowp: TensorFlow Lite's MultiplyByQuantizedMultiplier over gemmlowp's doubling high multiply and
rounding divide. tflite: the same, built with TFLITE_SINGLE_ROUNDING. tpu-mlir: TPU-MLIR's manual,
``(x * multiplier) >> shift``, half away from zero. Left shifts and sums do not overflow here.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tests.oracle.arithmetic import Array

MOST_BITS, MOST_SHIFT = 31, 62
FINE = 20  # bits that TensorFlow Lite's add shifts its operands left by


def shift_of(real: float) -> int:
    """Return the right shift that gives ``|real|`` 31 bits once it is rounded."""
    size = abs(Fraction(real))
    if size == 0:
        return MOST_BITS
    shift = MOST_BITS - (size.numerator.bit_length() - size.denominator.bit_length())
    while nearest(size * 2**shift) >= 2**MOST_BITS:
        shift -= 1
    while nearest(size * 2 ** (shift + 1)) < 2**MOST_BITS:
        shift += 1
    return shift if shift <= MOST_SHIFT else MOST_BITS


def nearest(x: Fraction) -> int:
    """Round, half away from zero."""
    magnitude = (2 * abs(x).numerator + x.denominator) // (2 * x.denominator)
    return magnitude if x >= 0 else -magnitude


def multiplier(real: Array, like: Array | None = None) -> tuple[Array, Array]:
    """Return int64 multipliers and shifts of ``real``; shifts are those of ``like`` if given."""
    real = np.asarray(real, np.float64)
    if not (np.abs(real) < 2.0**30).all():
        raise ValueError(f"multiplier {np.max(np.abs(real))} is too large for fixed point")
    reals, sizes = real.ravel(), np.broadcast_to(real if like is None else like, real.shape).ravel()
    shifts = [shift_of(float(size)) for size in sizes]
    vanishing = [abs(size) < 2.0**-32 - 2.0**-65 for size in sizes]
    found = [
        0 if gone else nearest(Fraction(float(value)) * Fraction(2) ** shift)
        for value, shift, gone in zip(reals, shifts, vanishing, strict=True)
    ]
    return np.array(found, np.int64).reshape(real.shape), np.array(shifts).reshape(real.shape)


def shifted(product: Array, shift: Array, rounding: str) -> Array:
    """Return ``product * 2**-shift`` in int64."""
    product, shift = np.broadcast_arrays(np.asarray(product, np.int64), shift)
    if rounding == "gemmlowp":
        return _divide_by_power_of_two(_doubling_high(product, shift), np.maximum(shift - 31, 0))
    whole, rest = np.divmod(product, np.int64(1) << shift)
    half = np.int64(1) << (shift - 1)
    at_half = (rest == half) & ((rounding == "tflite") | (product >= 0))
    return whole + ((rest > half) | at_half)


def scaled(acc: Array, real: Array, rounding: str) -> Array:
    """Return integers ``acc`` times ``real``."""
    m, shift = multiplier(real)
    return shifted(np.asarray(acc, np.int64) * m, shift, rounding)


def added(a: Array, m_a: float, b: Array, m_b: float, rounding: str) -> Array:
    """Return ``a * m_a + b * m_b``, an operator of its own; a multiplier below zero subtracts."""
    if rounding == "tpu-mlir":
        return joined([(a, np.float64(m_a)), (b, np.float64(m_b))], rounding)
    twice = 2 * max(abs(float(m_a)), abs(float(m_b)))
    fine = (scaled(q << FINE, np.float64(m) / twice, rounding) for q, m in ((a, m_a), (b, m_b)))
    return scaled(sum(fine), np.float64(twice) / 2.0**FINE, rounding)


def joined(terms: list[tuple[Array, Array]], rounding: str) -> Array:
    """Return the sum of integers times reals, all at the shift of the largest real."""
    reals = np.broadcast_arrays(*(np.asarray(real, np.float64) for _, real in terms))
    largest = np.max(np.abs(reals), axis=0)
    total = sum(
        np.asarray(x, np.int64) * multiplier(real, largest)[0]
        for (x, _), real in zip(terms, reals, strict=True)
    )
    return shifted(np.asarray(total), multiplier(largest)[1], rounding)


def _doubling_high(product: Array, shift: Array) -> Array:
    """Round at bit 31; a multiplier above 1 has its product shifted left first, in big integers."""
    left = np.maximum(31 - shift, 0)
    if left.any():
        product = product.astype(object) * 2 ** left.astype(object)
    nudged = product + np.where(product >= 0, 2**30, 1 - 2**30)
    magnitude = np.abs(nudged) // 2**31  # C divides towards zero
    return np.where(nudged >= 0, magnitude, -magnitude).astype(np.int64)


def _divide_by_power_of_two(x: Array, exponent: Array) -> Array:
    mask = (np.int64(1) << exponent) - 1
    remainder, threshold = x & mask, (mask >> 1) + (x < 0)
    return (x >> exponent) + (remainder > threshold)
