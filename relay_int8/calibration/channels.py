"""Channels that are counted scaled: each by a factor, which its readers' weights take back.

They are axis 1 of images (n, c, h, w), and the last axis of tensors of any other rank.

The first pass over the data finds the least and the greatest value of each channel; from these
follow the factors, and with them the exact range of the scaled values. The second pass counts
these. So the table is the one of a network whose channels are scaled, which need not be compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.histogram import Range
from relay_int8.calibration.methods import Method
from relay_int8.numerics.equalization import (
    WORTH,
    free_factors,
    least_noise_factors,
    typical_power,
    within_range,
)

Array = npt.NDArray[Any]
Factors = Mapping[str, npt.NDArray[np.float32]]
"""Tensor -> float32 (channels,)."""


@dataclass(frozen=True, kw_only=True)
class FreeFactors:
    """The choice of factors that cost nothing, as in front of depthwise layers.

    Parameters
    ----------
    bounds
        float64 (channels,): the upper bound of each channel's clip; infinite: none.
    positions
        How many values an image has of each channel.
    gains
        Name of what a reader writes -> (channels,): by what it multiplies the errors of each
        channel, if channels are to grow no further than that needs.
    """

    bounds: npt.NDArray[np.float64]
    positions: int
    gains: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)

    def factors(
        self, extremes: Array, images: int, observed: Mapping[str, Range]
    ) -> npt.NDArray[np.float32]:
        """Return float32 (channels,), as :meth:`LeastNoise.factors` does."""
        largest = np.abs(extremes).max(axis=(0, 1))
        results = {name: observed[name].largest for name in self.gains if name in observed}
        return free_factors(largest, self.bounds, images * self.positions, self.gains, results)


@dataclass(frozen=True, kw_only=True)
class LeastNoise:
    """The choice of factors that cost readers something, as most have one scale for an output.

    Parameters
    ----------
    reads
        (channels, outputs, taps): the weights of each layer that reads the channels.
    free_reads
        (channels, taps): those of each depthwise layer beside them.
    power
        (channels,): the mean square of each channel. None: it is guessed from the extremes, and
        channels that grow leave headroom, as no norm bounds what other images have.
    bounds
        float64 (channels,): the upper bound of each channel's clip, None where there are none.
    worth
        That of :func:`~relay_int8.numerics.equalization.least_noise_factors`.
    """

    reads: tuple[npt.NDArray[np.float64], ...]
    free_reads: tuple[npt.NDArray[np.float64], ...] = ()
    power: npt.NDArray[np.float64] | None = None
    bounds: npt.NDArray[np.float64] | None = None
    worth: float = WORTH

    def factors(
        self, extremes: Array, images: int, observed: Mapping[str, Range]
    ) -> npt.NDArray[np.float32]:
        """Return float32 (channels,): factors by the least and the greatest value of each channel.

        Parameters
        ----------
        extremes
            float32 (tensors, 2, channels).
        images
            Of how many images.
        observed
            Name of a tensor -> range, over the same images.
        """
        if self.power is not None:
            return least_noise_factors(extremes, self.power, self.reads)
        power = typical_power(extremes)
        factors = least_noise_factors(extremes, power, self.reads, self.free_reads, self.worth)
        largest = np.abs(extremes).max(axis=(0, 1))
        bounds = np.full(len(largest), np.inf) if self.bounds is None else self.bounds
        return within_range(factors, largest, bounds).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class ScalableChannels:
    """Channels that may be scaled, since each of their readers can take a factor for each back.

    Parameters
    ----------
    name
        What their factors are called by: the tensor, or the first of several.
    tensors
        Name -> which of the channels it has, first and last + 1, of all tensors that are scaled
        and need a range.
    moved
        The same of tensors that are scaled with them and need none, such as what a max pooling
        gives: their means are those of scaled channels.
    deciding
        Those of ``tensors`` whose ranges decide; () is ``name`` alone.
    choice
        How.
    """

    name: str
    tensors: Mapping[str, tuple[int, int]]
    choice: FreeFactors | LeastNoise
    moved: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    deciding: tuple[str, ...] = ()

    def factors(
        self, extremes: Mapping[str, Array], observed: Mapping[str, Range]
    ) -> npt.NDArray[np.float32]:
        """Return float32 (channels,): factors by the least and the greatest value of each channel.

        Parameters
        ----------
        extremes
            Name -> float32 (2, channels).
        observed
            Name -> range, over the same images.
        """
        names = self.deciding or (self.name,)
        deciding = np.stack([extremes[name] for name in names])
        return self.choice.factors(deciding, observed[names[0]].images, observed)


def observed_channels(scalable: Iterable[ScalableChannels], method: Method) -> list[str]:
    """Return the tensors whose channels' extremes a method needs, each once."""
    if not method.scales_channels:
        return []
    return list(dict.fromkeys(name for channels in scalable for name in channels.tensors))


def chosen_factors(
    scalable: Iterable[ScalableChannels],
    extremes: Mapping[str, Array],
    observed: Mapping[str, Range],
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the factors by the names of ``scalable``, of those that any channel gains by.

    Where a value is not finite nothing is scaled.

    Parameters
    ----------
    extremes
        Name -> float32 (2, channels): the least and the greatest value of each channel.
    observed
        Name -> range, over the same images.
    """
    chosen = {}
    for channels in scalable:
        if any(observed[name].nonfinite for name in channels.tensors):
            continue
        factors = channels.factors(extremes, observed)
        if (factors != 1).any():
            chosen[channels.name] = factors
    return chosen


def factors_of_tensors(
    scalable: Iterable[ScalableChannels], factors: Factors
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the factors of every scaled tensor, from :func:`chosen_factors`."""
    return {
        name: factors[channels.name][first:end]
        for channels in scalable
        if channels.name in factors
        for name, (first, end) in (*channels.tensors.items(), *channels.moved.items())
    }


def scaled_range(observed: Range, extremes: Array, factors: Array) -> Range:
    """Return the range of a tensor after its channels were scaled."""
    low, high = extremes * factors + np.float32(0)  # -0.0 is 0.0, as in a Range
    return replace(observed, low=low.min(), high=high.max())


def merged_extremes(before: Array | None, after: Array) -> Array:
    """Return least and greatest values over the images of both."""
    if before is None:
        return np.array(after)
    return np.stack([np.minimum(before[0], after[0]), np.maximum(before[1], after[1])])
