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

Bin 0 counts as it is. The table of candidates is evaluated at once: with prefix sums of the counts,
the mass and the number of non-zero bins of each of the 128 levels are differences of two entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.histogram import Histogram

Array = npt.NDArray[Any]
TIE = 1e-12


@dataclass(frozen=True)
class Kl:
    """The search above.

    One-sided (over ``|x|``): as published, 128 levels. Two-sided, which the source does not have:
    high by the search over the histogram with ``levels`` doubled (256 integers code it), low by the
    same search over the mirrored histogram, each with the other end left where it was; zero always
    stays inside.
    """

    name: ClassVar[str] = "kl"
    needs_counts: ClassVar[bool] = True
    levels: ClassVar[int] = 128

    def __str__(self) -> str:
        return self.name

    def thresholds(self, histogram: Histogram) -> tuple[float, float]:
        """Return (0, T), or (low, high) of a two-sided histogram."""
        grid, counts = histogram.grid, histogram.counts
        if grid.absolute:
            return 0.0, grid.above(_bins_kept(counts, self.levels))
        high = grid.above(_bins_kept(counts, 2 * self.levels))
        low = grid.below(_bins_kept(counts[::-1], 2 * self.levels))
        return min(low, 0.0), max(high, 0.0)


def _bins_kept(counts: Array, levels: int) -> float:
    """Return ``m + 0.5`` for the best candidate m, or the number of bins where there is none."""
    divergence = divergences(counts, levels)
    least = divergence.min(initial=np.inf)
    if not np.isfinite(least):
        return float(len(counts))
    return levels + int(np.argmax(divergence <= least + TIE)) + 0.5


def divergences(counts: Array, levels: int = 128) -> Array:
    """Return KL(P || Q) of the candidates ``levels .. len(counts) - 1``, inf where there is none.

    With p the counts divided by their total, so that P sums to 1 and Q to ``n = sum(p[:i])``::

        KL = sum_j P_j log P_j - sum_j P_j log Q_j + log n

    where the second sum, level by level, is ``mass * log(mass / bins not zero)`` plus what
    saturates times the log of the last Q.
    """
    total = int(counts.sum())
    last = np.arange(levels, len(counts)) - 1
    if total == 0:
        return np.full(last.shape, np.inf)
    # Level k of candidate i begins at bin ceil(k * i / levels).
    edges = -(np.multiply.outer(last + 1, -np.arange(levels + 1)) // levels)
    mass = _prefix(counts).take(edges)
    nonzero = np.diff(_prefix(counts > 0).take(edges), axis=1)
    level_p = np.diff(mass, axis=1) / total
    level_log_q = _log(level_p) - _log(np.arange(len(counts) + 1)).take(nonzero)
    kept, beyond = mass[:, -1] / total, (total - mass[:, -1]) / total
    p_log_p = _prefix(_xlogx(counts / total)).take(last) + _xlogx(counts[last] / total + beyond)
    p_log_q = np.einsum("ik,ik->i", level_p, level_log_q) + beyond * level_log_q[:, -1]
    lost = (kept == 0) | ((counts[last] == 0) & (beyond > 0))
    return np.where(lost, np.inf, p_log_p - p_log_q + _log(kept))


def _prefix(values: Array) -> Array:
    """Return the sums of the first 0, 1, ... values."""
    sums = np.cumsum(values)
    return np.concatenate([sums[:1] * 0, sums])


def _log(values: Array) -> Array:
    """Return log; that of zero is finite, so that it vanishes when a zero mass multiplies it."""
    logarithms: Array = np.log(np.maximum(values, 1e-300))
    return logarithms


def _xlogx(values: Array) -> Array:
    result: Array = values * _log(values)
    return result
