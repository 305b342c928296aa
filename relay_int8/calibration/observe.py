"""What calibration asks of the float network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.histogram import Grid, Histogram, Range

Image = dict[str, npt.NDArray[Any]]
"""Input name -> array, of batch 1."""

Progress = Callable[[str, int, int | None], None]
"""Called with "ranges" or "histograms", images done, and images in all (None: not known yet)."""


class Runner(Protocol):
    """The float network with a kernel behind every observed tensor (``schedules.spec.Observe``).

    It runs batch 1 with fixed schedules, so that what it reports of an image depends on nothing but
    the image.
    """

    def ranges(self, image: Image) -> Mapping[str, npt.NDArray[np.float32]]:
        """Return of each tensor float32 (3,): minimum, maximum, count of values not finite."""
        ...

    def histograms(
        self, image: Image, grids: Mapping[str, Grid]
    ) -> Mapping[str, npt.NDArray[np.int32]]:
        """Return of each tensor int32 (bins,), by ``grid.low`` and ``grid.inverse``."""
        ...


class ArrayRunner:
    """A Runner of any function that returns the tensors themselves.

    Slower than kernels inside the network, and equal to them bit for bit: the reference in tests,
    and the way to calibrate on values that another runtime computes.

    Parameters
    ----------
    network
        Image -> tensor name -> float32 array.
    """

    def __init__(self, network: Callable[[Image], Mapping[str, npt.NDArray[Any]]]) -> None:
        self._network = network

    def ranges(self, image: Image) -> Mapping[str, npt.NDArray[np.float32]]:
        """Return minimum, maximum and count of values not finite of each tensor."""
        return {name: Range.statistic(values) for name, values in self._network(image).items()}

    def histograms(
        self, image: Image, grids: Mapping[str, Grid]
    ) -> Mapping[str, npt.NDArray[np.int32]]:
        """Return the counts of each tensor over its grid."""
        tensors = self._network(image)
        return {
            name: Histogram.of(tensors[name], grid).counts.astype(np.int32)
            for name, grid in grids.items()
        }
