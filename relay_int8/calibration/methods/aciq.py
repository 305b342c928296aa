"""Analytic clipping: the threshold that is best for a distribution of assumed shape.

Source: R. Banner et al., "Post training 4-bit quantization of convolutional networks for
rapid-deployment" (ACIQ), NeurIPS 2019. The squared error of rounding to 2**M integers over [-T, T],
``T**2 / (3 * 4**M)``, and of saturation is least where, with ``a = T / b`` or ``T / sigma``,

- Laplace, ``b = E|x|``:       ``a * exp(a) = 3 * 4**M``;
- Gauss, ``sigma**2 = E x**2``: ``a * (1 - erf(a / sqrt 2)) + a / (3 * 4**M) = sqrt(2 / pi) *
  exp(-a**2 / 2)``.

M is 8. A tensor that is never negative is half of such a distribution, and 256 integers on one side
are 512 on both: M is 9 then, and its zeros, which stand for the other half, do not count. Both
means are about zero and taken from the histogram, a bin's values standing in its middle.

(ncnn and TPU-MLIR use the same constants with a sigma guessed from the number of values and their
maximum.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from relay_int8.calibration.histogram import Histogram
from relay_int8.calibration.methods.base import SymmetricMethod
from relay_int8.numerics.qparams import Scheme

GAUSS = {"s8": 3.924035489878989, "u8": 4.21632982570247}
LAPLACE = {"s8": 9.896759770017528, "u8": 11.162685017743998}


class _Moment(SymmetricMethod):
    """T is a constant times the root of the mean power of ``|x|``."""

    counts_zeros: ClassVar[bool] = True
    power: ClassVar[int]
    constants: ClassVar[dict[str, float]]

    def thresholds(self, histogram: Histogram, scheme: Scheme = "s8") -> tuple[float, float]:
        """Return (0, T)."""
        counts, grid = histogram.without_zeros, histogram.grid
        if not counts.any():
            return 0.0, float(grid.high)
        x = np.arange(len(counts)) + 0.5
        spread = float((counts @ x**self.power) / counts.sum()) ** (1 / self.power)
        factor = self.constants["u8" if scheme == "u8" else "s8"]
        return 0.0, grid.above(min(factor * spread, float(len(counts))))


@dataclass(frozen=True)
class AciqGauss(_Moment):
    """Best for a normal distribution."""

    name: ClassVar[str] = "aciq-gauss"
    power: ClassVar[int] = 2
    constants: ClassVar[dict[str, float]] = GAUSS


@dataclass(frozen=True)
class AciqLaplace(_Moment):
    """Best for a Laplace distribution."""

    name: ClassVar[str] = "aciq-laplace"
    power: ClassVar[int] = 1
    constants: ClassVar[dict[str, float]] = LAPLACE
