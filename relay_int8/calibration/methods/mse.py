"""Least squared error of rounding and saturation together, over the histogram.

Source: pytorch-quantization 2.1, ``calib/histogram.py``, ``_compute_amax_mse``: each bin's values
stand in its middle, and the candidates are the middles of bins 128 .. last, ``T = (i + 0.5) * w``.
With ``s = T / 127``, or ``T / 255`` where the tensor is unsigned, x becomes ``s * rint(x / s)``, at
most T; the first candidate with the least error wins. (The published histogram grows batch by
batch; here it is the one of a single batch that holds all data.)

In units of half a bin a middle is an odd number ``2j + 1``, and it rounds to integer k or above
where ``2 * 127 * (2j + 1) > (2k - 1) * (2i + 1)``: even against odd, so there is no tie. An
integer's bins lie side by side, and their error is had from sums of 1, x and x squared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.histogram import Histogram
from relay_int8.calibration.methods.base import SymmetricMethod
from relay_int8.calibration.methods.divergence import prefix_sums
from relay_int8.numerics.qparams import Scheme

Array = npt.NDArray[Any]
FIRST = 128


@dataclass(frozen=True)
class Mse(SymmetricMethod):
    """The threshold of least squared error."""

    name: ClassVar[str] = "mse"

    def thresholds(self, histogram: Histogram, scheme: Scheme = "s8") -> tuple[float, float]:
        """Return (0, T)."""
        grid, counts = histogram.grid, histogram.counts
        if not counts.any() or len(counts) <= FIRST:
            return 0.0, float(grid.high)
        errors = squared_errors(counts, 255 if scheme == "u8" else 127)
        # Sums of the same numbers in another order differ in the last bits.
        best = int(np.argmax(errors <= errors.min() + 1e-12 * counts.sum()))
        return 0.0, grid.above(FIRST + best + 0.5)


def squared_errors(counts: Array, steps: int) -> Array:
    """Return the sum of squared errors of the candidates ``128 .. len(counts) - 1``, in bins."""
    bins = len(counts)
    i = np.arange(FIRST, bins)[:, None]
    k = np.arange(1, steps + 1)
    first = ((2 * k - 1) * (2 * i + 1) - 2 * steps) // (4 * steps) + 1
    zeros = np.zeros_like(i)
    edges = np.concatenate([zeros, np.clip(first, 0, bins), zeros + bins], axis=1)
    x = np.arange(bins) + 0.5
    y = np.arange(steps + 1) * (i + 0.5) / steps
    n, sum_x = (np.diff(prefix_sums(counts * power)[edges], axis=1) for power in (1.0, x))
    errors: Array = (counts * x**2).sum() + (y * (y * n - 2 * sum_x)).sum(axis=1)
    return errors
