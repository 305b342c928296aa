"""The KL search of TPU-MLIR's run_calibration.

Source: TPU-MLIR, ``python/calibration/kld_calibrator.py`` (the histogram) and
``calibration_math.cpp``, ``kl_diversity_hist``. Bins are centred on multiples of their width, zeros
are not counted, and only multiples of 128 are candidates::

    w = max|x| / 2047;  bin of x = floor(|x| / w + 0.5)
    for i in 128, 256, ..., 2048:
        P = bins[0:i] / sum(bins);  P[i-1] += sum(bins[i:]) / sum(bins)
        Q = bins[0:i] / sum(bins[0:i]) in 128 levels of i / 128 bins; empty bins stay empty
        divergence[i] = sum_j P[j] * (log10(P[j] + 1e-30) - log10(Q[j] + 1e-30))
    T = argmin * w                                         # at most 2048 / 2047 of max|x|

Ties go to the first. No value but zero: nothing saturates. The tool stores P, Q and the sums in
float32; this is the same in float64. The manual's ``(i + 0.5) * max|x| / 2048`` is not what the
code does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.histogram import Grid, Histogram, Range
from relay_int8.calibration.methods.base import SymmetricMethod
from relay_int8.calibration.methods.divergence import least
from relay_int8.numerics.qparams import Scheme

Array = npt.NDArray[Any]
EPS = 1e-30
LEVELS = 128


@dataclass(frozen=True)
class KlTpuMlir(SymmetricMethod):
    """TPU-MLIR's threshold of least divergence."""

    name: ClassVar[str] = "kl-tpu-mlir"
    counts_zeros: ClassVar[bool] = True

    def grid(self, scheme: Scheme, observed: Range) -> Grid:
        """Return bins whose centres are multiples of max|x| / 2047."""
        span = float(super().grid(scheme, observed).high)
        width = span / (self.bins - 1)
        low = np.float32(-width / 2)
        return Grid(low, np.float32(float(low) + self.bins * width), True, self.bins)

    def thresholds(self, histogram: Histogram, scheme: Scheme = "s8") -> tuple[float, float]:
        """Return (0, T)."""
        counts, width = histogram.without_zeros, float(histogram.grid.width)
        if not counts.any():
            return 0.0, float(histogram.grid.high)
        best = least(np.array(whole_level_divergences(counts, LEVELS)))
        assert best is not None
        return 0.0, (best + 1) * LEVELS * width


def whole_level_divergences(counts: Array, levels: int) -> list[float]:
    """Return KL(P || Q), in decimal logarithms, of the candidates ``levels, 2 * levels, ...``."""
    divergence = []
    for kept in range(levels, len(counts) + 1, levels):
        rows = counts[:kept].reshape(levels, -1)
        filled = np.maximum((rows > 0).sum(axis=1, keepdims=True), 1)
        shared = np.where(rows > 0, rows.sum(axis=1, keepdims=True) / filled, 0.0)
        q = shared.ravel() / max(rows.sum(), 1)
        p = counts[:kept] / counts.sum()
        p[-1] += counts[kept:].sum() / counts.sum()
        divergence.append(float(p @ (np.log10(p + EPS) - np.log10(q + EPS))))
    return divergence
