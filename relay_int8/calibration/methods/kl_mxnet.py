"""MXNet's entropy calibration, which relay.quantize copied.

Source: MXNet 1.x, ``src/operator/quantization/calibrate.cc``. Over 8001 bins of x itself between
-max|x| and max|x|, bin 4000 in the middle; 255 levels, 511 where the tensor is unsigned::

    for i in 127 .. 4000:                                  # from 255 on with 511 levels
        s = bins[4000-i : 4000+i+1];  p = s
        p[0] += sum of the bins before;  p[-1] += sum of the bins after;  s[0] = 0
        m = len(s) // 255;  levels of m bins, the last one takes the remainder too
        q[k] = sum of s in the level / bins of s not empty there, where p[k] != 0
        smooth p and q: 1e-4 where zero, 1e-4 * zeros / nonzeros less elsewhere
        divergence[i] = KL(p / sum(p), q / sum(q));        # inf where all of q is zero
    T = upper edge of bin 4000 + argmin

p[0] holds bin 4000-i too, s[0] does not: that is the C++ code; the Python code of MXNet 1.3 kept it
in both. Ties go to the first. Where all divergences are infinite nothing saturates here; the tool
returns its smallest candidate. The tool computes in float32; this is the same in float64. Its
histogram grows when a later batch is wider; here it is the one of a single batch that holds all
data.

Where p is zero, p and q are both 1e-4 after smoothing and add nothing. What is left is a sum of
``(c - e) log(c - e)`` over the counts of the slice, e being another number for each candidate:
counts below 16 are few different numbers, the others are a power series in e / c, exact to the last
bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.histogram import Grid, Histogram, Range
from relay_int8.calibration.methods.base import Method
from relay_int8.calibration.methods.divergence import least, log, prefix_sums, xlogx
from relay_int8.numerics.qparams import Scheme

Array = npt.NDArray[Any]
EPS = 1e-4
SMALL, ORDERS = 16, range(2, 13)  # (1 / 16)**12 / 132 is below the last bit


@dataclass(frozen=True)
class KlMxnet(Method):
    """MXNet's threshold of least divergence."""

    name: ClassVar[str] = "kl-mxnet"
    bins: ClassVar[int] = 8001

    def absolute(self, scheme: Scheme) -> bool:
        """Say that its histogram is one of x."""
        return False

    def grid(self, scheme: Scheme, observed: Range) -> Grid:
        """Return bins over [-max|x|, max|x|]."""
        high = Grid.over(observed, True, self.bins).high
        return Grid(-high, high, False, self.bins)

    def thresholds(self, histogram: Histogram, scheme: Scheme = "s8") -> tuple[float, float]:
        """Return (-T, T)."""
        levels = 511 if scheme == "u8" else 255
        best = least(divergences(histogram.counts, levels))
        if best is None:
            return float(histogram.grid.low), float(histogram.grid.high)
        threshold = histogram.grid.above(len(histogram.counts) // 2 + levels // 2 + best + 1)
        return -threshold, threshold


@dataclass(frozen=True)
class _Slices:
    """Where the slice of each candidate lies: bins [start, stop), its levels, its inner bins."""

    start: Array
    stop: Array
    levels: Array
    inner: Array

    @classmethod
    def of(cls, bins: int, levels: int) -> _Slices:
        """Return the slices around zero, one bin wider on both sides from one to the next."""
        half = np.arange(levels // 2, bins // 2 + 1)
        start, stop = bins // 2 - half, bins // 2 + half + 1
        edges = start[:, None] + np.arange(levels + 1) * ((stop - start) // levels)[:, None]
        edges[:, -1] = stop
        inner = np.clip(edges, start[:, None] + 1, stop[:, None] - 1)
        return cls(start, stop, edges, inner)


def divergences(counts: Array, levels: int) -> Array:
    """Return the divergence of the candidates ``levels // 2 .. len(counts) // 2``."""
    at = _Slices.of(len(counts), levels)
    mass, filled = prefix_sums(counts), prefix_sums(counts > 0)
    total = float(mass[-1])
    # Of each level: mass and bins not empty of s; the first bin of s counts as empty.
    s_edges = np.maximum(at.levels, at.start[:, None] + 1)
    s_mass, s_filled = np.diff(mass[s_edges], axis=1), np.diff(filled[s_edges], axis=1)
    inner_mass, inner_filled = np.diff(mass[at.inner], axis=1), np.diff(filled[at.inner], axis=1)
    shared = s_mass / np.maximum(s_filled, 1)
    ends = np.stack([mass[at.start + 1], mass[-1] - mass[at.stop - 1]], axis=1)
    end_q = np.where(ends > 0, shared[:, [0, -1]], 0.0)
    p_filled = inner_filled.sum(axis=1) + (ends > 0).sum(axis=1)
    q_filled = inner_filled.sum(axis=1) + (end_q > 0).sum(axis=1)
    q_total = (inner_filled * shared).sum(axis=1) + end_q.sum(axis=1)
    size = at.stop - at.start
    p_less = EPS * (size - p_filled) / np.maximum(p_filled, 1)
    q_less = EPS * (size - q_filled) / np.maximum(q_filled, 1)
    p_ends = np.where(ends > 0, ends - p_less[:, None], 0.0)
    q_ends = np.where(end_q > 0, end_q - q_less[:, None], EPS)
    p_log_p = _smoothed_xlogx(counts, at, p_less) + xlogx(p_ends).sum(axis=1)
    log_q = log(shared - q_less[:, None])
    p_log_q = ((inner_mass - p_less[:, None] * inner_filled) * log_q).sum(axis=1)
    p_log_q += (p_ends * log(q_ends)).sum(axis=1)
    divergence = (p_log_p - p_log_q) / max(total, 1.0) + log(q_total) - log(np.float64(total))
    return np.where((q_filled == 0) | (total == 0), np.inf, divergence)


def _smoothed_xlogx(counts: Array, at: _Slices, less: Array) -> Array:
    """Return the sum of ``(c - less) log(c - less)`` over the inner bins that are not empty."""
    first, end = at.start + 1, at.stop - 1

    def _inside(values: Array) -> Array:
        sums = prefix_sums(values)
        inner: Array = sums[end] - sums[first]
        return inner

    result: Array = np.zeros(len(less))
    for count in range(1, SMALL):
        result += _inside(counts == count) * xlogx(count - less)
    large = counts >= SMALL
    c = np.where(large, counts, 1).astype(np.float64)
    result += _inside(xlogx(c)) - less * _inside(large * (np.log(c) + 1))
    for order in ORDERS:
        result += less**order / (order * (order - 1)) * _inside(large / c ** (order - 1))
    return result
