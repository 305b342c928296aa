"""Everything calibration has learned so far; what tasks find is merged into it, exactly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from relay_int8.calibration.channels import Array, merged_extremes
from relay_int8.calibration.growing import merge_growing
from relay_int8.calibration.histogram import Histogram, Range
from relay_int8.calibration.mapper import TaskResult
from relay_int8.calibration.means import ChannelMeans
from relay_int8.calibration.methods import Method
from relay_int8.calibration.observe import Statistics


@dataclass
class RunningStatistics:
    """Minima, maxima, integer counts and exact sums over the first images of a dataset.

    Parameters
    ----------
    observed
        By tensor: the exact range.
    followed
        By tensor: the range that the method follows, image by image.
    means
        By tensor, of those whose channel means are wanted.
    extremes
        By tensor, of those whose channels may be scaled: float32 (2, channels), the least and the
        greatest value of each.
    histograms
        By tensor; empty before counting begins.
    images
        How many images the ranges are of.
    counted
        How many images the histograms are of.
    """

    observed: dict[str, Range]
    followed: dict[str, Range]
    means: dict[str, ChannelMeans] = field(default_factory=dict)
    extremes: dict[str, Array] = field(default_factory=dict)
    histograms: dict[str, Histogram] = field(default_factory=dict)
    images: int = 0
    counted: int = 0

    @classmethod
    def of(cls, tensors: Iterable[str]) -> RunningStatistics:
        """Return the statistics of no image."""
        names = list(tensors)
        return cls(dict.fromkeys(names, Range()), dict.fromkeys(names, Range()))

    def add(self, result: TaskResult, method: Method) -> None:
        """Merge what a task found of the next images."""
        for statistics in result.statistics:
            self._follow(statistics, method)
        self.images += len(result.statistics)
        for name, histogram in result.histograms.items():
            before = self.histograms.get(name)
            if before is None:
                self.histograms[name] = histogram
            else:
                merge = merge_growing if method.one_pass else Histogram.merge
                self.histograms[name] = merge(before, histogram)
        if result.histograms:
            self.counted += result.images

    def _follow(self, statistics: Statistics, method: Method) -> None:
        for name in self.observed:
            seen = Range.from_statistic(statistics.ranges[name])
            self.observed[name] = self.observed[name].merge(seen)
            self.followed[name] = method.follow(self.followed[name], seen)
        for name, values in statistics.means.items():
            one = ChannelMeans.of(values)
            self.means[name] = self.means[name].merge(one) if name in self.means else one
        for name, extremes in statistics.extremes.items():
            self.extremes[name] = merged_extremes(self.extremes.get(name), extremes)
