"""Least squared error by Newton's method: OCTAV.

Source: C. Sakr et al., "Optimal Clipping and Magnitude-aware Differentiation for Improved
Quantization-aware Training", ICML 2022, equation 6. Rounding costs ``s**2 * 4**-B / 3`` for each
value within the threshold s (a twelfth for unsigned tensors, whose steps are half as wide),
saturation ``(|x| - s)**2`` for each beyond, and zeros cost nothing. The least of both is a fixed
point of::

    s <- sum(|x|, |x| > s) / (4**-B / 3 * count(0 < |x| <= s) + count(|x| > s)),      B = 8

from the mean magnitude on. TPU-MLIR calls it ``mse``. Here |x| are the middles of the histogram's
bins; it stops when a step is below 1e-9 of the range, after 100 steps at the latest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from relay_int8.calibration.histogram import Histogram
from relay_int8.calibration.methods.base import SymmetricMethod
from relay_int8.calibration.methods.divergence import prefix_sums
from relay_int8.numerics.qparams import Scheme

STEPS = 100
SETTLED = 1e-9


@dataclass(frozen=True)
class Octav(SymmetricMethod):
    """The threshold of least squared error, by Newton's method."""

    name: ClassVar[str] = "octav"
    counts_zeros: ClassVar[bool] = True

    def thresholds(self, histogram: Histogram, scheme: Scheme = "s8") -> tuple[float, float]:
        """Return (0, T)."""
        counts, grid = histogram.without_zeros, histogram.grid
        if not counts.any():
            return 0.0, float(grid.high)
        noise = 4.0**-8 / (12 if scheme == "u8" else 3)
        x = np.arange(len(counts)) + 0.5
        number, sums = prefix_sums(counts), prefix_sums(counts * x)
        s = float(sums[-1] / number[-1])
        for _ in range(STEPS):
            inside = int(np.searchsorted(x, s, side="right"))
            beyond = number[-1] - number[inside]
            step = float((sums[-1] - sums[inside]) / (noise * number[inside] + beyond))
            s, moved = step, abs(step - s)
            if moved < SETTLED * len(counts):
                break
        return 0.0, grid.above(min(s, float(len(counts))))
