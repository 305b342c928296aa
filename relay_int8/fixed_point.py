"""Requantization with integers alone: a multiplier of 31 bits, a right shift, a named rounding.

``q = acc * M`` with a real ``M`` becomes ``acc * multiplier * 2**-shift`` in 64-bit integers, for
devices that have no floats. Three roundings are in use, and their results differ:

=========  ====================================  =====================================
rounding   who                                   how
=========  ====================================  =====================================
gemmlowp   TensorFlow Lite, by default           twice: the high half of the doubled
                                                 product, then the shift; each to
                                                 nearest, the second half away from zero
tflite     TensorFlow Lite, built with           once, half up
           TFLITE_SINGLE_ROUNDING
tpu-mlir   TPU-MLIR (`MulQuantShift`)            once, half away from zero
=========  ====================================  =====================================

The worked example of TPU-MLIR's manual: 0.1234 is 2119995857 >> 34.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from relay_int8.errors import CalibrationError

Array = npt.NDArray[Any]
Rounding = Literal["gemmlowp", "tflite", "tpu-mlir"]
INT32 = np.iinfo(np.int32)
MOST_LEFT, MOST_RIGHT = 30, 31  # by how far the exponent may leave zero


@dataclass(frozen=True, eq=False)
class FixedMultiplier:
    """Real multipliers as ``multiplier * 2**-shift``.

    Parameters
    ----------
    multiplier
        int32, 2**30 to 2**31 - 1, or 0.
    shift
        int32, 1 to 62: a right shift.
    """

    multiplier: npt.NDArray[np.int32]
    shift: npt.NDArray[np.int32]

    @property
    def reals(self) -> npt.NDArray[np.float64]:
        """The real numbers that they stand for, exactly."""
        reals: npt.NDArray[np.float64] = np.ldexp(self.multiplier.astype(np.float64), -self.shift)
        return reals


def quantize_multiplier(real: Array | float) -> FixedMultiplier:
    """Return the nearest multipliers with 31 bits (TensorFlow Lite's ``QuantizeMultiplier``).

    ``real = f * 2**e`` with f in [0.5, 1); the multiplier is f * 2**31, rounded half away from
    zero, the shift 31 - e. Reals below 2**-32 become zero.

    Raises
    ------
    CalibrationError
        A real is negative, not finite, or 2**30 and more.
    """
    reals = np.atleast_1d(np.asarray(real, np.float64))
    wrong = ~((reals >= 0) & (reals < 2.0**MOST_LEFT - 0.5))
    if wrong.any():
        raise CalibrationError(
            f"multiplier {reals[wrong][0]} found; fixed-point arithmetic takes 0 to 2**30"
        )
    fraction, exponent = np.frexp(reals)
    multiplier = np.floor(fraction * 2.0**31 + 0.5).astype(np.int64)
    carried = multiplier == 2**31
    multiplier, exponent = np.where(carried, 2**30, multiplier), exponent + carried
    vanishing = (exponent < -MOST_RIGHT) | (multiplier == 0)
    return FixedMultiplier(
        np.where(vanishing, 0, multiplier).astype(np.int32),
        np.where(vanishing, 31, 31 - exponent).astype(np.int32),
    )


def multiply(x: Array, by: FixedMultiplier, rounding: Rounding) -> npt.NDArray[np.int32]:
    """Return int32 ``x`` times real multipliers; what leaves int32 saturates.

    ``by`` broadcasts against x: one multiplier a channel, with the axes of x behind it.
    """
    wide = np.asarray(x).astype(np.int64)
    product = ROUNDINGS[rounding](wide, by.multiplier.astype(np.int64), by.shift.astype(np.int64))
    return np.clip(product, INT32.min, INT32.max).astype(np.int32)


def requantize(
    x: Array, by: FixedMultiplier, zero_point: int, qmin: int, qmax: int, rounding: Rounding
) -> npt.NDArray[np.int32]:
    """Return ``clip(multiply(x, by) + zero_point, qmin, qmax)``."""
    moved = multiply(x, by, rounding).astype(np.int64) + zero_point
    return np.clip(moved, qmin, qmax).astype(np.int32)


def _gemmlowp(x: Array, multiplier: Array, shift: Array) -> Array:
    """Shift left where M >= 1, double the high half of the product, then shift right.

    The left shift saturates where C leaves its overflow undefined.
    """
    exponent = 31 - shift
    left = np.clip(x << np.maximum(exponent, 0), INT32.min, INT32.max)
    product = left * multiplier
    nudged = product + np.where(product >= 0, 1 << 30, 1 - (1 << 30))
    high = np.where(nudged >= 0, nudged >> 31, -(-nudged >> 31))  # towards zero
    right = np.maximum(-exponent, 0)
    mask = (np.int64(1) << right) - 1
    threshold = (mask >> 1) + (high < 0)
    rounded: Array = (high >> right) + ((high & mask) > threshold)
    return rounded


def _tflite(x: Array, multiplier: Array, shift: Array) -> Array:
    """Add half, shift right: towards plus infinity at a half."""
    rounded: Array = (x * multiplier + (np.int64(1) << (shift - 1))) >> shift
    return rounded


def _tpu_mlir(x: Array, multiplier: Array, shift: Array) -> Array:
    """Round the magnitude, half up: away from zero at a half."""
    product = x * multiplier
    magnitude = (np.abs(product) + (np.int64(1) << (shift - 1))) >> shift
    rounded: Array = np.sign(product) * magnitude
    return rounded


ROUNDINGS: Mapping[str, Callable[[Array, Array, Array], Array]] = MappingProxyType(
    {"gemmlowp": _gemmlowp, "tflite": _tflite, "tpu-mlir": _tpu_mlir}
)
