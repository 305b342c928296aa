"""Method max: the range is all that was observed, so that nothing saturates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from relay_int8.calibration.histogram import Histogram
from relay_int8.calibration.methods.base import Method
from relay_int8.numerics.qparams import Scheme


@dataclass(frozen=True)
class Max(Method):
    """The whole range. One-sided: T = max|x|. Two-sided: [min, max]."""

    name: ClassVar[str] = "max"
    needs_counts: ClassVar[bool] = False

    def thresholds(self, histogram: Histogram, scheme: Scheme = "s8") -> tuple[float, float]:
        """Return the ends of the grid."""
        return float(histogram.grid.low), float(histogram.grid.high)
