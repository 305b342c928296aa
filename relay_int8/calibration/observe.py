"""What calibration asks of the float network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.channels import Factors
from relay_int8.calibration.histogram import Grid
from relay_int8.data.dataset import Image

UNSCALED: Factors = MappingProxyType({})
"""No tensor has factors."""
Progress = Callable[[str, int, int | None], None]
"""Called with "ranges" or "histograms", images done, and images in all (None: not known yet)."""


class Statistics(NamedTuple):
    """What the first pass learns of one image.

    ``ranges``: tensor -> float32 (3,): minimum, maximum, count of values that are not finite.
    ``means``: tensor -> float32 (channels,): the mean of each channel; names are those of
    :func:`relay_int8.numerics.channel_means.averaged`.
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
