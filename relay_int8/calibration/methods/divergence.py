"""KL(P || Q) of many candidate thresholds at once, by prefix sums over the bins.

Candidate i keeps the first i bins. P is bins[0:i] with what lies beyond added to the last bin; Q is
bins[0:i] without it, its mass in equal levels of bins, each level's shared by its bins that are not
empty. With p the counts divided by their total, so that P sums to 1 and Q to ``n = sum(p[:i])``::

    KL = sum_j P_j log P_j - sum_j P_j log Q_j + log n

where the second sum, level by level, is ``mass * log(mass / bins not empty)`` plus what lies beyond
times the log of the last Q.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
TIE = 1e-12
"""Divergences closer than this differ by rounding, which must not decide."""


def divergences(counts: Array, levels: int, candidates: Array) -> Array:
    """Return KL(P || Q) of each candidate; inf where Q is empty where P is not, or everywhere.

    Bin j of candidate i belongs to level ``levels * j // i``, in integers.

    Parameters
    ----------
    counts
        (bins,) integers.
    candidates
        Ascending integers from 1 to the number of bins.
    """
    total = int(counts.sum())
    last = candidates - 1
    if total == 0:
        return np.full(last.shape, np.inf)
    # Level k of candidate i begins at bin ceil(k * i / levels).
    edges = -(np.multiply.outer(candidates, -np.arange(levels + 1)) // levels)
    mass = prefix_sums(counts).take(edges)
    filled = np.diff(prefix_sums(counts > 0).take(edges), axis=1)
    level_p = np.diff(mass, axis=1) / total
    level_log_q = log(level_p) - log(np.arange(len(counts) + 1)).take(filled)
    kept, beyond = mass[:, -1] / total, (total - mass[:, -1]) / total
    p_log_p = prefix_sums(xlogx(counts / total)).take(last) + xlogx(counts[last] / total + beyond)
    # The last bin is in the last level, unless there are more levels than bins.
    last_level = levels * last // candidates
    last_log_q = level_log_q[np.arange(len(last)), last_level]
    p_log_q = np.einsum("ik,ik->i", level_p, level_log_q) + beyond * last_log_q
    lost = (kept == 0) | ((counts[last] == 0) & (beyond > 0))
    return np.where(lost, np.inf, p_log_p - p_log_q + log(kept))


def least(divergence: Array, *, last: bool = False) -> int | None:
    """Return the index of the least one, of ties the first or the last; None if all are inf."""
    smallest = divergence.min(initial=np.inf)
    if not np.isfinite(smallest):
        return None
    tied = np.flatnonzero(divergence <= smallest + TIE)
    return int(tied[-1 if last else 0])


def prefix_sums(values: Array) -> Array:
    """Return the sums of the first 0, 1, ... values."""
    sums = np.cumsum(values)
    return np.concatenate([sums[:1] * 0, sums])


def log(values: Array | np.float64) -> Array:
    """Return log; that of zero is finite, so that it vanishes when a zero mass multiplies it."""
    logarithms: Array = np.log(np.maximum(values, 1e-300))
    return logarithms


def xlogx(values: Array) -> Array:
    """Return ``x log x``, 0 for 0."""
    result: Array = values * log(values)
    return result
