"""What calibration remembers of a tensor: its exact range, and how often each magnitude occurred.

Merging is exact and independent of order: minima, maxima and integer counts only, no float sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.errors import CalibrationError
from relay_int8.numerics.qparams import SMALLEST_THRESHOLD

Array = npt.NDArray[Any]
BINS = 2048
CACHED = 2**15  # values that are counted at a time: they and their bins are half a mebibyte
_NONE_LOW, _NONE_HIGH = np.float32(np.inf), np.float32(-np.inf)


@dataclass(frozen=True)
class Range:
    """The finite values of a tensor, over some images.

    Parameters
    ----------
    low, high
        Smallest and largest finite value; +inf and -inf where there was none.
    images
        How many images were looked at.
    nonfinite
        How many values were NaN or infinite; low and high leave them out.
    """

    low: np.float32 = _NONE_LOW
    high: np.float32 = _NONE_HIGH
    images: int = 0
    nonfinite: int = 0

    @staticmethod
    def statistic(values: Array) -> npt.NDArray[np.float32]:
        """Return what a "range" kernel reports of ``values``: see :meth:`from_statistic`."""
        finite = values[np.isfinite(values)]
        low, high = finite.min(initial=np.inf), finite.max(initial=-np.inf)
        return np.array([low, high, values.size - finite.size], np.float32)

    @classmethod
    def from_statistic(cls, statistic: Array) -> Range:
        """Return the range that a "range" kernel reports of one image.

        Parameters
        ----------
        statistic
            float32 (3,): minimum, maximum, number of values that are not finite.
        """
        # Adding zero turns -0.0 into 0.0, of which min() would keep whichever came first.
        low, high, nonfinite = np.asarray(statistic, np.float32) + np.float32(0)
        return cls(low, high, images=1, nonfinite=int(nonfinite))

    def merge(self, other: Range) -> Range:
        """Return the range of both."""
        return Range(
            min(self.low, other.low),
            max(self.high, other.high),
            self.images + other.images,
            self.nonfinite + other.nonfinite,
        )

    @property
    def empty(self) -> bool:
        """Whether no finite value was seen."""
        return bool(self.low > self.high)

    @property
    def largest(self) -> float:
        """The largest magnitude of the finite values; 0 where none was seen."""
        return 0.0 if self.empty else max(-float(self.low), float(self.high))


@dataclass(frozen=True)
class Grid:
    """Equal bins over [low, high]; of ``|x|`` where ``absolute``.

    ``bin = clip(int((v - low) * inverse), 0, bins - 1)`` in float32: high itself lands in the last
    bin.
    """

    low: np.float32
    high: np.float32
    absolute: bool
    bins: int = BINS

    def __post_init__(self) -> None:
        # low and high may be 1e38 apart from zero each: kernels compute v - low in float32.
        with np.errstate(over="ignore"):
            finite = np.isfinite(np.float32(self.high) - np.float32(self.low))
        if not (finite and self.high - self.low >= SMALLEST_THRESHOLD):
            raise CalibrationError(
                f"a histogram over [{self.low!s}, {self.high!s}] asked for; its width must be a "
                f"float32 of at least {SMALLEST_THRESHOLD:.2g}"
            )

    @classmethod
    def over(cls, observed: Range, absolute: bool, bins: int = BINS) -> Grid:
        """Return the grid of a tensor with this range.

        Absolute: [0, max|x|] of ``|x|``. Else: [min, max] of x, stretched to hold zero.
        A range too narrow for a grid (all values zero) is taken one wide.
        """
        zero, one = np.float32(0), np.float32(1)
        low = zero if absolute else min(observed.low, zero)
        high = max(-observed.low, observed.high) if absolute else max(observed.high, zero)
        narrow = float(high) - float(low) < SMALLEST_THRESHOLD
        return cls(zero if narrow else low, one if narrow else high, absolute, bins)

    @classmethod
    def of_zeros(cls, bins: int) -> Grid:
        """Return the grid of ``|x|`` whose first bin holds what is zero or below 2**-120."""
        return cls(np.float32(0), np.float32(bins * 2.0**-120), True, bins)

    @property
    def width(self) -> np.float32:
        """Bin width."""
        return np.float32((float(self.high) - float(self.low)) / self.bins)

    @property
    def inverse(self) -> np.float32:
        """1 / bin width, as kernels read it."""
        return np.float32(1.0 / float(self.width))

    def above(self, bins: float) -> float:
        """Return where so many bins from low on end; all of them end at high, exactly."""
        return float(self.high) if bins == self.bins else float(self.low) + bins * float(self.width)

    def below(self, bins: float) -> float:
        """Return where so many bins from high down end; all of them end at low, exactly."""
        return float(self.low) if bins == self.bins else float(self.high) - bins * float(self.width)


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts over a grid.

    Parameters
    ----------
    grid
        The bins.
    counts
        int64 (bins,); read-only from here on.
    zeros
        How many of the values are zero (:meth:`Grid.of_zeros`), where the method asked for it.
    """

    grid: Grid
    counts: npt.NDArray[np.int64]
    zeros: int = 0

    def __post_init__(self) -> None:
        counts = np.array(self.counts, np.int64)
        if counts.shape != (self.grid.bins,) or (counts < 0).any():
            raise CalibrationError(
                f"counts of shape {counts.shape}, the least {counts.min(initial=0)}, found; "
                f"{self.grid.bins} counts from 0 up are expected"
            )
        if self.zeros and not (self.grid.absolute and 0 < self.zeros <= counts[0]):
            raise CalibrationError(
                f"{self.zeros} zeros found; a histogram of |x| has 0 to {counts[0]} in bin 0"
            )
        counts.setflags(write=False)
        object.__setattr__(self, "counts", counts)

    @classmethod
    def of(cls, values: Array, grid: Grid) -> Histogram:
        """Return the histogram of ``values`` by the arithmetic of the "histogram" kernel."""
        flat = values.reshape(-1).astype(np.float32, copy=False)
        counts = np.zeros(grid.bins, np.int64)
        for start in range(0, len(flat), CACHED):
            block = flat[start : start + CACHED]
            finite = np.isfinite(block)
            v = block if finite.all() else block[finite]
            with np.errstate(over="ignore"):
                position = (np.abs(v) if grid.absolute else v) - grid.low
                position *= grid.inverse
            np.clip(position, 0, grid.bins - 1, out=position)
            counts += np.bincount(position.astype(np.int64), minlength=grid.bins)
        return cls(grid, counts)

    def merge(self, other: Histogram) -> Histogram:
        """Return the histogram of both; their grids must be equal."""
        if self.grid != other.grid:
            raise CalibrationError(
                f"histograms over {self.grid} and {other.grid} cannot be merged; collect both "
                "over one range"
            )
        return Histogram(self.grid, self.counts + other.counts, self.zeros + other.zeros)

    @property
    def without_zeros(self) -> npt.NDArray[np.int64]:
        """Counts of ``|x|``, those of zero left out."""
        counts = self.counts.copy()
        counts[0] -= self.zeros
        return counts

    @cached_property
    def total(self) -> int:
        """How many values were counted."""
        return int(self.counts.sum())
