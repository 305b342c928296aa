"""Multipliers for requantization with integers alone: 31 bits and a right shift.

``q = acc * M`` with a real ``M`` becomes ``acc * multiplier * 2**-shift`` in 64-bit integers, for
devices that have no floats. Three roundings of that product are in use
(:func:`schedules.reference.exact.shift_right`), and their results differ:

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.errors import CalibrationError

Array = npt.NDArray[Any]
MOST_LEFT, MOST_RIGHT = 30, 31  # by how far the exponent may leave zero


@dataclass(frozen=True, eq=False)
class FixedMultiplier:
    """Real multipliers as ``multiplier * 2**-shift``.

    Parameters
    ----------
    multiplier
        int32; of magnitude 2**30 to 2**31 - 1, or 0, where it has a shift of its own.
    shift
        int32, 1 to 62: a right shift.
    """

    multiplier: npt.NDArray[np.int32]
    shift: npt.NDArray[np.int32]


def quantize_multiplier(real: Array | float) -> FixedMultiplier:
    """Return the nearest multipliers with 31 bits (TensorFlow Lite's ``QuantizeMultiplier``).

    ``real = f * 2**e`` with f in [0.5, 1); the multiplier is f * 2**31, rounded half away from
    zero, the shift 31 - e. Magnitudes below 2**-32 become zero; a negative slope is a negative
    multiplier.

    Raises
    ------
    CalibrationError
        A real is not finite, or of magnitude 2**30 and more.
    """
    return quantize_together([np.atleast_1d(np.asarray(real, np.float64))])[0]


def quantize_together(reals: Sequence[Array]) -> list[FixedMultiplier]:
    """Return the nearest multipliers at one shift, that of the largest: for products that add up.

    Element by element: ``reals`` are arrays of one shape; errors as :func:`quantize_multiplier`.
    """
    largest = np.max([np.abs(real) for real in reals], axis=0)
    wrong = ~(largest < 2.0**MOST_LEFT - 0.5)
    if wrong.any():
        raise CalibrationError(
            f"multiplier {largest[wrong][0]} found; fixed-point arithmetic takes magnitudes up to "
            "2**30: the output scale is far too small for its inputs"
        )
    fraction, exponent = np.frexp(largest)
    exponent += np.floor(fraction * 2.0**31 + 0.5) == 2.0**31  # 31 bits that round up to 32
    vanishing = (exponent < -MOST_RIGHT) | (largest == 0)
    shift = np.where(vanishing, 31, 31 - exponent).astype(np.int32)
    steps = [np.where(vanishing, 0, np.ldexp(real, shift)) for real in reals]
    return [
        FixedMultiplier((np.sign(s) * np.floor(np.abs(s) + 0.5)).astype(np.int32), shift)
        for s in steps
    ]
