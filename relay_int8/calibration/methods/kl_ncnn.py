"""The KL search of ncnn's ncnn2table.

Source: ncnn, ``tools/quantize/ncnn2table.cpp``, ``quantize_KL``. Over 2048 bins of ``|x|``, zeros
not counted, with h the counts divided by their sum::

    for i in 128 .. 2047:
        n = i / 128                                        # bins a level, not an integer
        a[j] = 1e-4 + h[j], j < i;  a[i-1] += sum(h[i:])
        L[k] = mean of h over [k * n, (k + 1) * n)         # a bin cut by the end counts in part
        b[j] = 1e-4 + mean of L over [j, j + 1)            # and is filled in part from both sides
        divergence[i] = sum_j a[j] * log(a[j] / b[j])      # neither a nor b is normalized
    T = (argmin + 0.5) * max|x| / 2048

Ties go to the first. No value but zero: nothing saturates. The tool computes in float32; this is
the same in float64, so that candidates which differ in the seventh digit may be told apart
otherwise.

A level's mean is a difference of the piecewise linear sum of h. A bin within one level has that
level's L; at most one bin between two neighbouring levels is cut, and all those are computed apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.histogram import Histogram
from relay_int8.calibration.methods.base import SymmetricMethod
from relay_int8.calibration.methods.divergence import least, prefix_sums, xlogx
from relay_int8.numerics.qparams import Scheme

Array = npt.NDArray[Any]
EPS = 1e-4
LEVELS = 128


@dataclass(frozen=True)
class KlNcnn(SymmetricMethod):
    """ncnn's threshold of least divergence."""

    name: ClassVar[str] = "kl-ncnn"
    counts_zeros: ClassVar[bool] = True

    def thresholds(self, histogram: Histogram, scheme: Scheme = "s8") -> tuple[float, float]:
        """Return (0, T)."""
        counts = histogram.without_zeros
        if not counts.any():
            return 0.0, float(histogram.grid.high)
        best = least(divergences(counts / counts.sum()))
        assert best is not None
        return 0.0, histogram.grid.above(LEVELS + best + 0.5)


def divergences(h: Array) -> Array:
    """Return the divergence of the candidates ``128 .. len(h) - 1``; h sums to 1."""
    candidates = np.arange(LEVELS, len(h))[:, None]
    starts = np.arange(LEVELS + 1) * candidates / LEVELS  # exact: multiples of 1 / 128
    # floor and fraction of the levels' ends, (candidates, 129).
    whole = starts.astype(np.int64)
    cut = starts - whole
    sums = prefix_sums(h)
    padded = np.append(h, 0.0)
    mean = np.diff(sums[whole] + cut * padded[whole], axis=1) / (candidates / LEVELS)
    # Bins from the first that begins in the level to the first that is cut or beyond.
    first, end = -(-starts // 1).astype(np.int64), whole
    a_sums = prefix_sums(h + EPS)
    inside = a_sums[end[:, 1:]] - a_sums[first[:, :-1]]
    a_log_b = (inside * np.log(EPS + mean)).sum(axis=1)
    # The bin that the end between two levels cuts, if it cuts one.
    between, part = whole[:, 1:-1], cut[:, 1:-1]
    mixed = np.log(EPS + part * mean[:, :-1] + (1 - part) * mean[:, 1:])
    a_log_b += ((h[between] + EPS) * mixed * (part > 0)).sum(axis=1)
    last = candidates[:, 0] - 1
    beyond = np.maximum(sums[-1] - sums[last + 1], 0.0)
    # The last bin lies within the last level, which is at least one bin wide.
    a_log_b += beyond * np.log(EPS + mean[:, -1])
    a_log_a = prefix_sums(xlogx(h + EPS))[last] + xlogx(h[last] + EPS + beyond)
    divergence: Array = a_log_a - a_log_b
    return divergence
