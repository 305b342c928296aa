"""Least squared error of rounding and saturation together, both ends of the range chosen.

Quantizing a tensor with a range [a, b] of 255 steps ``s = (b - a) / 255`` (symmetric types: 127
steps from zero to T) adds an error to each value, whose square is on average

- ``x**2`` where ``|x| < s / 2``: it becomes zero,
- ``s**2 / 12`` elsewhere within the range: rounding, spread evenly over a step,
- ``(x - b)**2`` or ``(x - a)**2`` beyond: saturation.

The range is the one whose sum over the histogram is least, but the whole one where that saves less
than a tenth of it (0.5 dB): rounding errors average out in the sums of the layers behind, what
is cut does not, and other images have larger values still. A bin's values stand in its middle, but
those of the bin that holds zero are zero, as most of them are behind a ReLU. Candidates are the
edges of every sixteenth bin. Types with a zero point have both ends searched together, so that a
tensor that reaches far on one side keeps its steps for that side. Where nothing is cut, and few
values were seen, it reaches further than these (:mod:`relay_int8.calibration.methods.unseen`).

Where all that reads a tensor is a function of it, as a swish behind a convolution, errors are those
of the function's values, of what is cut four times: swish makes next to nothing of what lies below
-5, so that a range need not reach there.

``mse`` is the same idea as published: thresholds on ``|x|`` alone, which hold for both signs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.histogram import Histogram
from relay_int8.calibration.methods.base import Function, Method
from relay_int8.calibration.methods.unseen import margins
from relay_int8.numerics.qparams import Scheme

Array = npt.NDArray[Any]
WORTH = 0.9  # share of the whole range's error: a range with more is not worth what it cuts
CUT = 4.0  # weight of the squared error of cut values behind a function: of one sign, it adds up
STRIDE = 16  # bins between candidates: 128 of them an end, so that the least is missed by little


@dataclass(frozen=True)
class MseAffine(Method):
    """The range, both ends of it, of least squared error."""

    name: ClassVar[str] = "mse-affine"

    def thresholds(self, histogram: Histogram, scheme: Scheme = "s8") -> tuple[float, float]:
        """Return (0, T), or (low, high) of a two-sided histogram."""
        return _search(histogram, partial(squared_errors, histogram.counts), scheme)

    def thresholds_behind(
        self, function: Function, histogram: Histogram, scheme: Scheme
    ) -> tuple[float, float]:
        """Return the range by the errors of the function's values, where it has them.

        Of |x| of a signed tensor it has none, nor where it is not finite.
        """
        grid = histogram.grid
        width = float(grid.width)
        with np.errstate(all="ignore"):
            edges = function(float(grid.low) + np.arange(grid.bins + 1) * width)
            values = function(float(grid.low) + (np.arange(grid.bins) + 0.5) * width)
        finite = np.isfinite(edges).all() and np.isfinite(values).all()
        if scheme == "s8" or not finite:
            return self.thresholds(histogram, scheme)
        errors = partial(errors_behind, histogram.counts, edges, values)
        return _search(histogram, errors, scheme)

    def margins(self, histogram: Histogram, scheme: Scheme) -> tuple[float, float]:
        """Return how far beyond the values that were seen the next images are expected to reach."""
        grid = histogram.grid
        zero = 0.0 if grid.absolute else -float(grid.low) / float(grid.width)
        bins = margins(histogram.counts, zero, 127 if scheme == "s8" else 255)
        return bins[0] * float(grid.width), bins[1] * float(grid.width)


def _search(
    histogram: Histogram, errors_of: Callable[[float, Array, Array, int], Array], scheme: Scheme
) -> tuple[float, float]:
    """Return (0, T), or (low, high) of a two-sided histogram."""
    grid = histogram.grid
    if not histogram.counts.any():
        return float(grid.low), float(grid.high)
    zero = 0.0 if grid.absolute else -float(grid.low) / float(grid.width)
    lows = np.zeros(1) if grid.absolute else np.arange(0.0, zero + 1e-9, STRIDE)
    highs = np.arange(grid.bins, zero, -STRIDE, dtype=np.float64)
    highs = highs if len(highs) else np.array([float(grid.bins)])
    errors = errors_of(zero, lows, highs, 127 if scheme == "s8" else 255)
    low, high = np.unravel_index(int(np.argmin(errors)), errors.shape)
    if errors[low, high] > WORTH * errors[0, 0]:
        low = high = np.intp(0)  # the candidates begin with the whole range
    top = grid.above(float(highs[high]))
    if grid.absolute:
        return 0.0, top
    return min(grid.below(grid.bins - float(lows[low])), 0.0), max(top, 0.0)


def errors_behind(
    counts: Array, edges: Array, values: Array, zero: float, lows: Array, highs: Array, steps: int
) -> Array:
    """Return float64 (lows, highs): the sum of squared errors of a function for each range.

    What is cut has the function's value at the end of the range, and counts ``CUT`` times; rounding
    weighs by the square of the slope.

    Parameters
    ----------
    counts
        (bins,) of the histogram of the function's argument.
    edges, values
        (bins + 1,) and (bins,): the function at the edges of the bins, and in their middle.
    zero, lows, highs, steps
        As of :func:`squared_errors`; zero is exact in every range, and has no part in it.
    """
    below, above = lows.astype(np.int64), highs.astype(np.int64)
    slopes = np.diff(edges)  # for a bin
    terms = (counts, counts * values, counts * values**2, counts * slopes**2)
    *moments, rounded = (np.concatenate([[0.0], np.cumsum(term)]) for term in terms)
    cut = _cut_errors(moments, below, above, edges[below], edges[above])
    s = (highs[None] - lows[:, None]) / steps
    within = rounded[above][None] - rounded[below][:, None]
    errors: Array = CUT * cut + within * s**2 / 12
    return errors


def squared_errors(counts: Array, zero: float, lows: Array, highs: Array, steps: int) -> Array:
    """Return float64 (lows, highs): the sum of squared errors for each range, in bins.

    Parameters
    ----------
    counts
        (bins,) of the histogram.
    zero
        Where zero lies, in bins from the histogram's lower end.
    lows, highs
        Edges of bins, whole numbers from the lower end: no low is above ``zero``, no high below.
    steps
        Between the two ends of a range.
    """
    x = _values(len(counts), zero)
    moments = [np.concatenate([[0.0], np.cumsum(counts * x**power)]) for power in range(3)]
    n, _, second = moments
    below, above = lows.astype(np.int64), highs.astype(np.int64)
    cut = _cut_errors(moments, below, above, lows - zero, highs - zero)
    s = (highs[None] - lows[:, None]) / steps
    begin = np.maximum(np.searchsorted(x, -s / 2, side="right"), below[:, None])
    end = np.minimum(np.searchsorted(x, s / 2, side="left"), above[None])
    end = np.maximum(begin, end)
    rounded = n[above][None] - n[below][:, None] - (n[end] - n[begin])
    zeroed = second[end] - second[begin]
    errors: Array = cut + zeroed + rounded * s**2 / 12
    return errors


def _cut_errors(moments: Sequence[Array], below: Array, above: Array, a: Array, b: Array) -> Array:
    """Return (lows, highs): the sum of squared distances of cut values from the ends a and b.

    Parameters
    ----------
    moments
        Number, sum and sum of squares of the values in the first 0, 1, ... bins.
    below, above
        int64: how many bins lie below each low, and below each high.
    a, b
        Values at the lows, and at the highs.
    """
    n, first, second = (total[below] for total in moments)
    low = second - 2 * a * first + a**2 * n
    n, first, second = (total[-1] - total[above] for total in moments)
    high = second - 2 * b * first + b**2 * n
    cut: Array = low[:, None] + high[None]
    return cut


def _values(bins: int, zero: float) -> Array:
    """Return (bins,), ascending: what the values of each bin are taken for, in bins from zero."""
    x = np.arange(bins) + 0.5 - zero
    x[np.abs(x) <= 0.5] = 0.0
    return x
