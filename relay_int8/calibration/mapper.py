"""Calibration's unit of work: a task on a few images, wherever it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from relay_int8.calibration.channels import Factors
from relay_int8.calibration.growing import covering, grow, merge_growing
from relay_int8.calibration.histogram import Grid, Histogram
from relay_int8.calibration.observe import Runner, Statistics
from relay_int8.data.dataset import Image


@dataclass(frozen=True)
class TaskResult:
    """What a task learned of some images.

    ``statistics``, one an image in order, of tasks that look at ranges; ``histograms`` by tensor,
    of tasks that count.
    """

    images: int
    statistics: Sequence[Statistics] = ()
    histograms: Mapping[str, Histogram] = field(default_factory=dict)


Task = Callable[[Runner, Sequence[Image]], TaskResult]


class Mapper(ABC):
    """Runs tasks on all images of a dataset."""

    @abstractmethod
    def map(self, task: Callable[[], Task], images: Iterable[Image]) -> Iterator[TaskResult]:
        """Yield what the task finds of a few images at a time, in the order of the dataset.

        ``task`` is asked before each of them: it may know more by then.
        """


@dataclass(frozen=True)
class OneByOne(Mapper):
    """Here, one image after another."""

    runner: Runner

    def map(self, task: Callable[[], Task], images: Iterable[Image]) -> Iterator[TaskResult]:
        """Yield what the task finds of each image."""
        for image in images:
            yield task()(self.runner, [image])


def observe_ranges(runner: Runner, images: Sequence[Image]) -> TaskResult:
    """Find the range of every tensor in each image."""
    return TaskResult(len(images), [runner.statistics(image) for image in images])


@dataclass(frozen=True)
class CountOverGrids:
    """Count values over grids that are known.

    Parameters
    ----------
    grids
        By tensor.
    zeros
        Whether zeros are counted too; each image runs twice then.
    factors
        By tensor, of those whose channels are scaled.
    """

    grids: Mapping[str, Grid]
    zeros: bool = False
    factors: Factors = field(default_factory=dict)

    def __call__(self, runner: Runner, images: Sequence[Image]) -> TaskResult:
        """Return the counts of all images together."""
        counts = {name: np.zeros(grid.bins, np.int64) for name, grid in self.grids.items()}
        zeros = dict.fromkeys(self.grids, 0)
        of_zeros = {name: Grid.of_zeros(grid.bins) for name, grid in self.grids.items()}
        for image in images:
            for name, count in runner.histograms(image, self.grids, self.factors).items():
                counts[name] += count
            if self.zeros:
                for name, count in runner.histograms(image, of_zeros, self.factors).items():
                    zeros[name] += int(count[0])
        histograms = {
            name: Histogram(grid, counts[name], zeros[name]) for name, grid in self.grids.items()
        }
        return TaskResult(len(images), histograms=histograms)


@dataclass(frozen=True)
class CountAndGrow:
    """Look at ranges and count in one pass, over grids of powers of two that grow.

    Parameters
    ----------
    grids
        By tensor, where to start: those that covered the images so far.
    """

    grids: Mapping[str, Grid]

    def __call__(self, runner: Runner, images: Sequence[Image]) -> TaskResult:
        """Return ranges and counts; an image that a grid does not cover is counted again."""
        grids = dict(self.grids)
        statistics: list[Statistics] = []
        totals: dict[str, Histogram] = {}
        for image in images:
            seen, counts = runner.observe(image, grids)
            grown = {name: grow(grids[name], seen.ranges[name]) for name in grids}
            if grown != grids:
                grids = grown
                counts = runner.histograms(image, grids)
            statistics.append(seen)
            for name, grid in grids.items():
                one = Histogram(grid, counts[name].astype(np.int64))
                totals[name] = merge_growing(totals[name], one) if name in totals else one
        return TaskResult(len(images), statistics, totals)


def smallest_grids(names: Iterable[str], bins: int) -> dict[str, Grid]:
    """Return the grids that :class:`CountAndGrow` starts from."""
    return {name: covering(0.0, bins) for name in names}
