"""How far a range of few observed values should reach beyond the largest of them.

A tensor of few values, as the vector behind a global pooling has on few images, is exceeded by the
next images often and by much; one of a hundred thousand values is not. What is expected of as many
values again is taken from the tail: one of them lies beyond the end, by an exponential variable of
mean ``beta``, so that a range that reaches ``d`` further saturates with a squared error of

    2 * beta**2 * exp(-d / beta)

and rounds n values with one of ``n * ((r + d) / steps)**2 / 12``, r being the width that was seen.
The sum is least where

    d = beta * log(12 * steps**2 * beta / (n * (r + d)))

or at 0 where that is negative. ``beta`` is what the ``sqrt(n)`` largest values exceed the least of
them by on average, times the ratio of that value to the largest one: tails of normal
distributions become thinner like that. Bounds that functions have, as of a sigmoid or a clip, have
many values beside them and so a ``beta`` of nearly zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
LEAST = 8  # number of values in a tail; fewer say nothing of its shape
FARTHEST = 0.25  # share of an end's distance from zero: the misread tail costs 2 dB at most
ROUNDS = 8  # iterations: d stands on both sides of its equation, and hardly changes the right one


def margins(counts: Array, zero: float, steps: int) -> tuple[int, int]:
    """Return how many bins to reach further below and above; whole ones, the same on every machine.

    Parameters
    ----------
    counts
        (bins,) of the histogram, whose two ends are the smallest and the largest value.
    zero
        Where zero lies, in bins from the lower end; 0 for a histogram of magnitudes.
    steps
        Between the two ends of a range.
    """
    bins = len(counts)
    distance = np.arange(bins) + 0.5 - zero
    values = np.where(np.abs(distance) <= 0.5, 0, counts)  # zero is exact in any range
    total = int(values.sum())
    below = _excess(np.where(distance < 0, values, 0)[::-1], zero)
    above = _excess(np.where(distance > 0, values, 0), bins - zero)
    farther = (0.0, 0.0)
    for _ in range(ROUNDS):
        width = bins + sum(farther)
        farther = (
            _margin(below, total, width, steps, zero),
            _margin(above, total, width, steps, bins - zero),
        )
    return round(farther[0]), round(farther[1])


def _excess(values: Array, end: float) -> float:
    """Return beta, in bins, of the tail at the upper end; 0 where it has too few values."""
    total = int(values.sum())
    if total < LEAST:
        return 0.0
    downward = values[::-1]
    size = max(LEAST, math.isqrt(total - 1) + 1)
    depth = int(np.searchsorted(np.cumsum(downward), size)) + 1
    tail = downward[:depth].astype(np.float64)
    mean = float((tail * (depth - 0.5 - np.arange(depth))).sum() / tail.sum())
    return mean * max(end - depth, 0.0) / end


def _margin(beta: float, count: int, width: float, steps: int, end: float) -> float:
    if not beta:
        return 0.0
    gain = 12 * steps**2 * beta / (count * width)
    return min(beta * math.log(gain), FARTHEST * end) if gain > 1 else 0.0
