"""Calibration's statistics in NumPy: what kernels inside the network have to equal, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.channels import Factors
from relay_int8.calibration.histogram import Grid, Histogram, Range
from relay_int8.calibration.observe import UNSCALED, Statistics
from relay_int8.data.dataset import Image
from relay_int8.graph.dataflow import IMAGE
from relay_int8.numerics.channel_means import averaged


class ArrayRunner:
    """A Runner of any function that returns the tensors themselves.

    Slower than kernels inside the network, and equal to them bit for bit.

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


def channel_extremes(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return float32 (2, channels): the least and the greatest value of each channel."""
    axis = 1 if values.ndim == IMAGE else -1
    rows = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1)
    return np.stack([rows.min(axis=1), rows.max(axis=1)]).astype(np.float32)


def channel_means(values: npt.NDArray[Any], *, last: bool = False) -> npt.NDArray[np.float32]:
    """Return float32 (channels,): of images (n, c, h, w) by c, of other shapes by the last axis.

    With ``last`` by the last axis whatever the shape. The float32 sum ascends over the positions,
    as a kernel's does.
    """
    if values.ndim == 4 and not last:
        rows = np.moveaxis(values, 1, 0).reshape(values.shape[1], -1)
    else:
        rows = _columns(values)
    sums = np.cumsum(rows, axis=1, dtype=np.float32)[:, -1]
    means: npt.NDArray[np.float32] = sums * np.float32(1.0 / rows.shape[1])
    return means


def _columns(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return values.reshape(-1, values.shape[-1]).T


def scaled(values: npt.NDArray[Any], factors: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Return a tensor times the factors of its channels; as it is without any."""
    if factors is None:
        return values
    return values * (factors[:, None, None] if values.ndim == IMAGE else factors)
