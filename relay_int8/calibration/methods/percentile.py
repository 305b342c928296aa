"""Method percentile: the range outside of which a fixed share of the values lies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.histogram import Histogram
from relay_int8.calibration.methods.base import Method
from relay_int8.errors import ConfigError
from relay_int8.numerics.qparams import Scheme


@dataclass(frozen=True)
class Percentile(Method):
    """The range that holds ``percentile`` percent of the values, by whole bins.

    One-sided (over ``|x|``): T is the upper edge of the first bin at which the counts so far reach
    ``ceil(percentile / 100 * total)``. Two-sided: each tail gives up half of what may be given up,
    low being the lower edge of the bin found from above; zero always stays inside.
    """

    name: ClassVar[str] = "percentile"
    percentile: float = 99.99

    def __post_init__(self) -> None:
        if not 50 <= self.percentile <= 100:
            raise ConfigError(f"percentile {self.percentile} found; give one from 50 to 100")

    def __str__(self) -> str:
        return f"{self.name} {self.percentile}"

    def thresholds(self, histogram: Histogram, scheme: Scheme = "s8") -> tuple[float, float]:
        """Return (0, T), or (low, high) of a two-sided histogram."""
        grid, counts, total = histogram.grid, histogram.counts, histogram.total
        if total == 0:
            return float(grid.low), float(grid.high)
        kept = Fraction(str(self.percentile)) / 100  # what the decimal says, not its float
        if grid.absolute:
            return 0.0, grid.above(_bins_for(counts, kept * total))
        kept = (1 + kept) / 2
        high = grid.above(_bins_for(counts, kept * total))
        low = grid.below(_bins_for(counts[::-1], kept * total))
        return min(low, 0.0), max(high, 0.0)


def _bins_for(counts: npt.NDArray[np.int64], share: Fraction) -> int:
    """Return how many bins, from the first on, hold at least ``share`` values."""
    return int(np.searchsorted(np.cumsum(counts), math.ceil(share))) + 1
