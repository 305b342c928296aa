"""Statistics of many images at a time, in NumPy: calibration's ranges, found fast.

For choosing among answers; the table that a network ships with comes from the kernels of
:class:`relay_int8.calibration.network.CalibrationNetwork`, whose ranges are the same up to float
rounding.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.histogram import Range
from relay_int8.calibration.observe import ArrayRunner, Statistics
from relay_int8.data.dataset import Image
from relay_int8.numerics.channel_means import averaged
from relay_int8.quantization.refine.network import NumpyNetwork

Array = npt.NDArray[Any]


class Stacks:
    """Images in stacks, anew each time they are asked for."""

    def __init__(self, network: NumpyNetwork, images: Sequence[Image]) -> None:
        self._network = network
        self._images = images

    def __iter__(self) -> Iterator[Image]:
        yield from self._network.images(self._images)


class StackRunner(ArrayRunner):
    """A ``calibration.Runner`` whose images are stacks of images.

    Parameters
    ----------
    network
        The float network.
    observed, means
        Names of the tensors whose ranges, and whose channel means are wanted.
    """

    def __init__(
        self, network: NumpyNetwork, observed: Collection[str], means: Collection[str]
    ) -> None:
        wanted = {*observed, *(averaged(name)[0] for name in means)}

        def _tensors(image: Image) -> dict[str, Array]:
            return {**image, **network.run(image, keep=wanted.__contains__)}

        super().__init__(_tensors, means)
        self._observed = observed
        self._rows = network.rows

    def _statistics(self, tensors: Mapping[str, Array]) -> Statistics:
        return Statistics(
            ranges={name: _range(tensors[name]) for name in self._observed},
            means={name: self._mean(tensors, name) for name in self._means},
        )

    def _mean(self, tensors: Mapping[str, Array], name: str) -> npt.NDArray[np.float32]:
        tensor, last = averaged(name)
        return _means(self._rows(tensor, tensors[tensor]), last)


def _range(values: Array) -> npt.NDArray[np.float32]:
    low, high = values.min(), values.max()
    if np.isfinite(low) and np.isfinite(high):
        return np.array([low, high, 0], np.float32)
    return Range.statistic(values)


def _means(values: Array, last: bool) -> npt.NDArray[np.float32]:
    channel = 1 if values.ndim == 4 and not last else values.ndim - 1
    axes = tuple(axis for axis in range(values.ndim) if axis != channel)
    means: npt.NDArray[np.float32] = values.mean(axis=axes, dtype=np.float64).astype(np.float32)
    return means
