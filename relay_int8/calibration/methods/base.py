"""The interface of a calibration method: from the statistics of a tensor to its range."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy.typing as npt

from relay_int8.calibration.histogram import BINS, Grid, Histogram, Range
from relay_int8.numerics.qparams import Scheme

Function = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
"""Of real numbers, element by element, float64."""


class Method(ABC):
    """Choose a range from a histogram.

    ``str(method)`` is its name with its parameters, as tables record it.
    """

    name: ClassVar[str]
    needs_counts: ClassVar[bool] = True
    """False: :meth:`thresholds` reads the grid alone."""
    bins: ClassVar[int] = BINS
    """How many bins its histogram has."""
    counts_zeros: ClassVar[bool] = False
    """True: it needs to know how many values are zero (``Histogram.zeros``)."""

    one_pass: ClassVar[bool] = False
    """True: its bins are a power of two wide and grow, so that one pass over the data is enough."""

    scales_channels: ClassVar[bool] = True
    """False: it reads the data once, or follows images one by one, and no factors of channels are
    known by then."""

    def __str__(self) -> str:
        return self.name

    def absolute(self, scheme: Scheme) -> bool:
        """Say whether its histogram of a tensor with this scheme is one of ``|x|``."""
        return scheme != "asymmetric"

    def follow(self, before: Range, image: Range) -> Range:
        """Return the range that :meth:`grid` is given, after one more image."""
        return before.merge(image)

    def grid(self, scheme: Scheme, observed: Range) -> Grid:
        """Return the bins over which a tensor with this range is counted."""
        return Grid.over(observed, self.absolute(scheme), self.bins)

    @abstractmethod
    def thresholds(self, histogram: Histogram, scheme: Scheme) -> tuple[float, float]:
        """Return (low, high).

        Over ``|x|`` low is zero and high is the threshold T, for both signs. Values beyond
        saturate. The caller cuts the result to the range that was observed.
        """

    def thresholds_behind(
        self, function: Function, histogram: Histogram, scheme: Scheme
    ) -> tuple[float, float]:
        """Return :meth:`thresholds` of a tensor that nothing but a function of it reads."""
        return self.thresholds(histogram, scheme)

    def margins(self, histogram: Histogram, scheme: Scheme) -> tuple[float, float]:
        """Return how much further than what was observed to reach, below and above.

        Only an end that is the observed one is moved. Over ``|x|`` below is zero.
        """
        return 0.0, 0.0


class SymmetricMethod(Method):
    """A method whose source knows thresholds on ``|x|`` alone, whatever the scheme."""

    def absolute(self, scheme: Scheme) -> bool:
        """Say that its histogram is always one of ``|x|``."""
        return True
