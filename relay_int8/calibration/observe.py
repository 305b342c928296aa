"""What calibration asks of the float network."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.channels import Factors, channel_extremes, scaled
from relay_int8.calibration.histogram import Grid, Histogram, Range
from relay_int8.data.dataset import Image
from relay_int8.numerics.channel_means import averaged, channel_means

UNSCALED: Factors = MappingProxyType({})
"""No tensor has factors."""
Progress = Callable[[str, int, int | None], None]
"""Called with "ranges" or "histograms", images done, and images in all (None: not known yet)."""


class Statistics(NamedTuple):
    """What the first pass learns of one image.

    ``ranges``: tensor -> float32 (3,): minimum, maximum, count of values that are not finite.
    ``means``: tensor -> float32 (channels,): the mean of each channel, see :func:`channel_means`
    and, of the names, :func:`averaged`.
    ``extremes``: tensor -> float32 (2, channels): least and greatest value of each channel, of
    images (n, c, h, w) whose channels may be scaled.
    """

    ranges: Mapping[str, npt.NDArray[np.float32]]
    means: Mapping[str, npt.NDArray[np.float32]]
    extremes: Mapping[str, npt.NDArray[np.float32]]


class Runner(Protocol):
    """The float network with a kernel behind every observed tensor (``schedules.spec.Observe``).

    It runs batch 1 with fixed schedules, so that what it reports of an image depends on nothing but
    the image.
    """

    def statistics(self, image: Image) -> Statistics:
        """Return the ranges of all tensors, and what is known of the channels of some."""
        ...

    def histograms(
        self, image: Image, grids: Mapping[str, Grid], factors: Factors = UNSCALED
    ) -> Mapping[str, npt.NDArray[np.int32]]:
        """Return of each tensor int32 (bins,), by ``grid.low`` and ``grid.inverse``.

        Values are counted times the factors of their channels, where there are any.
        """
        ...

    def observe(
        self, image: Image, grids: Mapping[str, Grid]
    ) -> tuple[Statistics, Mapping[str, npt.NDArray[np.int32]]]:
        """Return both, of one run."""
        ...


class ArrayRunner:
    """A Runner of any function that returns the tensors themselves.

    Slower than kernels inside the network, and equal to them bit for bit: the reference in tests,
    and the way to calibrate on values that another runtime computes.

    Parameters
    ----------
    network
        Image -> tensor name -> float32 array.
    means
        Names of the tensors whose channel means are wanted, see :func:`averaged`.
    scalable
        Names of the tensors whose channels may be scaled.
    """

    def __init__(
        self,
        network: Callable[[Image], Mapping[str, npt.NDArray[Any]]],
        means: Collection[str] = (),
        scalable: Collection[str] = (),
    ) -> None:
        self._network = network
        self._means = means
        self._scalable = scalable

    def statistics(self, image: Image) -> Statistics:
        """Return the ranges of all tensors, and what is known of the channels of some."""
        return self._statistics(self._network(image))

    def histograms(
        self, image: Image, grids: Mapping[str, Grid], factors: Factors = UNSCALED
    ) -> Mapping[str, npt.NDArray[np.int32]]:
        """Return the counts of each tensor over its grid."""
        return _counts(self._network(image), grids, factors)

    def observe(
        self, image: Image, grids: Mapping[str, Grid]
    ) -> tuple[Statistics, Mapping[str, npt.NDArray[np.int32]]]:
        """Return both, of one run."""
        tensors = self._network(image)
        return self._statistics(tensors), _counts(tensors, grids)

    def _statistics(self, tensors: Mapping[str, npt.NDArray[Any]]) -> Statistics:
        return Statistics(
            ranges={name: Range.statistic(values) for name, values in tensors.items()},
            means={means: _channel_means(tensors, means) for means in self._means},
            extremes={name: channel_extremes(tensors[name]) for name in self._scalable},
        )


def _channel_means(tensors: Mapping[str, npt.NDArray[Any]], means: str) -> npt.NDArray[np.float32]:
    name, last = averaged(means)
    return channel_means(tensors[name], last=last)


def _counts(
    tensors: Mapping[str, npt.NDArray[Any]],
    grids: Mapping[str, Grid],
    factors: Factors = UNSCALED,
) -> dict[str, npt.NDArray[np.int32]]:
    return {
        name: Histogram.of(scaled(tensors[name], factors.get(name)), grid).counts.astype(np.int32)
        for name, grid in grids.items()
    }
