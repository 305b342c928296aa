"""Grids of ``|x|`` whose bins are a power of two wide, so that they can grow without error.

A bin of width 2**e is exactly two bins of width 2**(e - 1), and dividing a float32 by a power of
two is exact: whatever grid a value was counted over first, after merging pairs it is where it would
have been counted directly. So the histogram of any images depends on the images alone.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.histogram import Grid, Histogram, Range
from relay_int8.errors import CalibrationError

LEAST_EXPONENT = -109
"""Of the end of the narrowest grid; ``Grid`` wants no narrower one."""


def covering(largest: float, bins: int) -> Grid:
    """Return the narrowest grid [0, 2**k] with ``largest < 2**k``; bins are a power of two.

    Raises
    ------
    CalibrationError
        There is none: 2**128 is no float32.
    """
    exponent = max(math.frexp(largest)[1], LEAST_EXPONENT) if largest else LEAST_EXPONENT
    if exponent > 127:
        raise CalibrationError(
            f"a value of magnitude {largest} is beyond 2**127, where one-pass histograms end; use "
            "the method in two passes (without -onepass)"
        )
    return Grid(np.float32(0), np.float32(2.0**exponent), True, bins)


def grow(grid: Grid, statistic: npt.NDArray[np.float32]) -> Grid:
    """Return the grid, or the wider one that covers an image with this range statistic too."""
    largest = Range.from_statistic(statistic).largest
    return grid if largest < grid.high else covering(largest, grid.bins)


def merge_growing(a: Histogram, b: Histogram) -> Histogram:
    """Return the histogram of both over the wider grid."""
    high = max(a.grid.high, b.grid.high)
    return _widened(a, high).merge(_widened(b, high))


def _widened(histogram: Histogram, high: np.float32) -> Histogram:
    grid = histogram.grid
    ratio = float(high) / float(grid.high)
    if ratio == 1:
        return histogram
    # More than all bins into one is all bins into one.
    together = int(min(ratio, grid.bins))
    counts = np.zeros(grid.bins, np.int64)
    sums = histogram.counts.reshape(-1, together).sum(axis=1)
    counts[: len(sums)] = sums
    return Histogram(Grid(grid.low, high, True, grid.bins), counts)
