"""Method moving-average: minimum and maximum follow the images, each by an exponential average.

Source: PyTorch's MovingAverageMinMaxObserver and ONNX Runtime's MinMax calibration with
``moving_average``, constant 0.01 in both: the first step's range, then
``low += 0.01 * (low of the step - low)`` and the same for high.

It depends on the order of the data and, in those tools, on the batch size. Here a step is one
image, in the order of the dataset: batches do not matter, the order does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from relay_int8.calibration.histogram import Histogram, Range
from relay_int8.calibration.methods.base import Method
from relay_int8.errors import ConfigError
from relay_int8.numerics.qparams import Scheme


@dataclass(frozen=True)
class MovingAverage(Method):
    """The average above; ``constant`` is the weight of a new image."""

    name: ClassVar[str] = "moving-average"
    needs_counts: ClassVar[bool] = False
    scales_channels: ClassVar[bool] = False
    constant: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.constant <= 1:
            raise ConfigError(f"constant {self.constant} found; give one above 0, 1 at most")

    def __str__(self) -> str:
        return f"{self.name} {self.constant}"

    def follow(self, before: Range, image: Range) -> Range:
        """Return the averages after one more image."""
        if image.empty or before.empty:
            return before.merge(image)
        return Range(
            self._moved(before.low, image.low),
            self._moved(before.high, image.high),
            before.images + image.images,
            before.nonfinite + image.nonfinite,
        )

    def _moved(self, before: np.float32, now: np.float32) -> np.float32:
        return np.float32(float(before) + self.constant * (float(now) - float(before)))

    def thresholds(self, histogram: Histogram, scheme: Scheme = "s8") -> tuple[float, float]:
        """Return the ends of the grid."""
        return float(histogram.grid.low), float(histogram.grid.high)
