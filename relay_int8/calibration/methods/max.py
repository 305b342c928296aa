"""Nothing saturates: the range is all that was observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from relay_int8.calibration.histogram import Histogram


@dataclass(frozen=True)
class Max:
    """The whole range. One-sided: T = max|x|. Two-sided: [min, max]."""

    name: ClassVar[str] = "max"
    needs_counts: ClassVar[bool] = False

    def __str__(self) -> str:
        return self.name

    def thresholds(self, histogram: Histogram) -> tuple[float, float]:
        """Return the ends of the grid."""
        return float(histogram.grid.low), float(histogram.grid.high)
