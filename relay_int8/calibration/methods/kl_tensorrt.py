"""Least information lost: the threshold search of TensorRT's int8 calibration.

Source: S. Migacz, "8-bit Inference with TensorRT", GTC 2017, pseudo-code of entropy calibration::

    for i in range(128, 2048):
        P = bins[0:i];  P[i-1] += sum(bins[i:])           # what saturates lands in the last bin
        Q = bins[0:i] in 128 levels, expanded to i bins    # without what saturates; zeros stay zero
        divergence[i] = KL(P / sum(P), Q / sum(Q))
    m = argmin(divergence);  T = (m + 0.5) * bin width

What the source leaves open is decided so:

- level of bin j: ``128 * j // i``, in integers; a level's mass is shared equally by its bins that
  are not zero;
- bins[i-1] = 0 while values lie beyond: P is positive where Q is zero, the divergence is infinite
  (so an outlier with nothing but empty bins from bin 127 up to it is kept, not saturated);
- bins[0:i] all zero: Q has no mass, the divergence is infinite;
- all divergences infinite (say, all values equal): nothing saturates, T is the upper end;
- ties: the first, that is the smallest threshold, within 1e-12 of the least divergence. Closer than
  that is rounding, and must not decide.

Bin 0 counts as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.histogram import Histogram
from relay_int8.calibration.methods.base import Method
from relay_int8.calibration.methods.divergence import divergences, least
from relay_int8.numerics.qparams import Scheme

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class KlTensorrt(Method):
    """TensorRT's threshold of least divergence.

    One-sided (over ``|x|``): as published, 128 levels. Two-sided, which the source does not have:
    high by the search over the histogram with ``levels`` doubled (256 integers code it), low by the
    same search over the mirrored histogram, each with the other end left where it was; zero always
    stays inside.
    """

    name: ClassVar[str] = "kl-tensorrt"
    levels: ClassVar[int] = 128

    def thresholds(self, histogram: Histogram, scheme: Scheme = "s8") -> tuple[float, float]:
        """Return (0, T), or (low, high) of a two-sided histogram."""
        grid, counts = histogram.grid, histogram.counts
        if grid.absolute:
            return 0.0, grid.above(_bins_kept(counts, self.levels))
        high = grid.above(_bins_kept(counts, 2 * self.levels))
        low = grid.below(_bins_kept(counts[::-1], 2 * self.levels))
        return min(low, 0.0), max(high, 0.0)


def _bins_kept(counts: Array, levels: int) -> float:
    """Return ``m + 0.5`` for the best candidate m, or the number of bins where there is none."""
    candidates = np.arange(levels, len(counts))
    best = least(divergences(counts, levels, candidates))
    return float(len(counts)) if best is None else int(candidates[best]) + 0.5
