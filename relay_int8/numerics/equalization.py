"""Factors of channels that balance ranges between a layer and those that read it.

Positive factors pass through ReLU, pooling and their kin, so a producer's channel can be multiplied
and its readers' weights divided by the same number: the network computes the same, its integers do
not. Which factors serve best is the question of two papers. Pure NumPy, no graph in sight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
LARGEST = 64.0  # greatest factor of a channel; more would blow up values never calibrated
HEADROOM = 2.0
"""How often the largest value that was seen of a channel fits into its tensor's range, once the
channel has grown: other images have larger ones, and all channels would saturate, not a few."""

STRENGTHS = (0.25, 0.5, 0.75)  # of smoothing; with 1 all channels of other images would saturate
WORTH = 0.9  # share of the noise without factors above which they are left out, by default
DEVIATIONS = 8.0  # between the extremes of a channel, as many values of bell-shaped ones have
ENOUGH_VALUES = 20_000  # of a channel, whose largest other images hardly exceed


def cross_layer_factors(produced: Array, read: Array) -> Array:
    """Return float64 (channels,): factors that give both layers' weights equal channel ranges.

    Source: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias Correction",
    ICCV 2019, equation 11: ``s = sqrt(r1 * r2) / r2``, of which this is the inverse.

    Parameters
    ----------
    produced, read
        (channels,) largest magnitude of the weights that produce a channel, and of those that read
        it. A channel with a zero keeps the factor 1.
    """
    return _factors(np.sqrt(_ratio(read, produced)))


def smoothing_factors(activations: Array, read: Array, alpha: float) -> Array:
    """Return float64 (channels,): factors that move outliers of activations into weights.

    Source: Xiao et al., "SmoothQuant", ICML 2023, equation 4: ``s = max|X|^a / max|W|^(1-a)``, of
    which this is the inverse, scaled so that the largest channel keeps its range.

    Parameters
    ----------
    activations
        (channels,) largest magnitude of each channel.
    read
        (channels,) largest magnitude of the weights that read it.
    alpha
        1 makes the ranges of activations equal, 0 those of the weights.
    """
    x, w = np.asarray(activations, np.float64), np.asarray(read, np.float64)
    used = (x > 0) & (w > 0)
    if not used.any():
        return np.ones(len(x))
    s = np.ones(len(x))
    s[used] = x[used] ** alpha / w[used] ** (1 - alpha)
    factors = np.ones(len(x))
    factors[used] = s[np.argmax(np.where(used, x, 0))] / s[used]
    return np.clip(factors, 1 / LARGEST, LARGEST)


def equal_range_factors(largest: Array, bounds: Array, values: int) -> npt.NDArray[np.float32]:
    """Return float32 (channels,): factors from 1 to 64 that make the ranges of channels alike.

    The largest channel keeps its range, and so does one that is zero throughout. A channel with a
    clip leaves headroom too where few of its values were seen, as others will be larger.

    Parameters
    ----------
    largest
        (channels,) largest magnitude of each channel on the calibration images.
    bounds
        (channels,) the upper bound of each channel's clip; infinite: none.
    values
        How many values of each channel these images have.
    """
    largest = np.asarray(largest, np.float64)
    if values < ENOUGH_VALUES:
        bounds = np.full(len(largest), np.inf)
    factors = smoothing_factors(largest, np.ones(len(largest)), 1.0)
    factors = within_range(factors, largest, bounds)
    return within_clip(factors, largest, bounds).astype(np.float32)


def needed_factors(
    largest: float, gains: Mapping[str, Array], results: Mapping[str, float]
) -> Array | float:
    """Return float64 (channels,): by which rounding a channel adds what rounding a result does.

    Greater factors gain little, and channels that are far larger on other images saturate. 1 is the
    least; no bound, infinity, where a result's range is not known.

    Parameters
    ----------
    largest
        Magnitude of the tensor of these channels.
    gains
        Name of a result -> (channels,): by what errors of a channel are multiplied in it, the root
        of the sum of squares of its weights.
    results
        Name -> its magnitude.
    """
    if not gains or any(not results.get(name) for name in gains):
        return np.inf
    needed: Array = np.max([gains[name] * largest / results[name] for name in gains], axis=0)
    return np.maximum(needed, 1.0)


def free_factors(
    largest: Array,
    bounds: Array,
    values: int,
    gains: Mapping[str, Array],
    results: Mapping[str, float],
) -> npt.NDArray[np.float32]:
    """Return float32 (channels,): factors where these cost nothing, as before depthwise layers.

    Parameters
    ----------
    largest, bounds, values
        As :func:`equal_range_factors` has them.
    gains, results
        As :func:`needed_factors` has them; without gains channels fill their range.
    """
    factors = equal_range_factors(largest, bounds, values)
    needed = needed_factors(float(np.max(largest)), gains, results)
    return np.minimum(factors, needed).astype(np.float32)


def least_noise_factors(
    extremes: Array,
    power: Array,
    reads: Sequence[Array],
    free_reads: Sequence[Array] = (),
    worth: float = WORTH,
) -> npt.NDArray[np.float32]:
    """Return float32 (channels,): factors by which layers lose least to rounding.

    Both sides have one scale for many channels, a tensor one, the weights one for each output:
    what a factor takes from the one's rounding errors it adds to the other's. Of smoothing factors
    of several strengths those are taken whose sum of both is least; 1 throughout where that is not
    worth it.

    Parameters
    ----------
    extremes
        (tensors, 2, channels): the least and the greatest value of each channel, of all tensors
        that have these channels; each reader reads one of them.
    power
        (channels,): the mean square of each channel.
    reads
        (channels, outputs, taps): the weights of each layer that reads the channels.
    free_reads
        (channels, taps): those of each layer that has a scale for each channel: depthwise ones.
    worth
        Share of the noise without factors that has to be left at most.
    """
    largest = np.abs(np.asarray(extremes, np.float64)).max(axis=(0, 1))
    every = (*reads, *free_reads)
    weights = np.max([np.abs(read.reshape(len(read), -1)).max(axis=1) for read in every], axis=0)

    def _noise(factors: Array) -> float:
        of_tensors = _step_squared(np.asarray(extremes, np.float64) * factors) * sum(
            float(np.square(read.T / factors).sum()) for read in every
        )
        of_weights = sum(_weight_noise(read, factors) for read in reads)
        return float(of_tensors + of_weights * (power * factors**2).sum())

    best, least = np.ones(len(largest)), worth * _noise(np.ones(len(largest)))
    for strength in STRENGTHS:
        factors = smoothing_factors(largest, weights, strength)
        noise = _noise(factors)
        if noise < least:
            best, least = factors, noise
    return best.astype(np.float32)


def typical_power(extremes: Array) -> Array:
    """Return float64 (channels,): the mean squares of channels that span eight deviations.

    Parameters
    ----------
    extremes
        (tensors, 2, channels): the least and the greatest value of each channel; the mean of all
        tensors is returned.
    """
    low, high = np.moveaxis(np.asarray(extremes, np.float64), 1, 0)
    power: Array = (((high - low) / DEVIATIONS) ** 2).mean(axis=0)
    return power


def _step_squared(extremes: Array) -> float:
    """Return the mean square of the steps of tensors, (tensors, 2, channels) their extremes."""
    low, high = np.moveaxis(extremes, 1, 0)
    steps = (np.maximum(high.max(axis=1), 0) - np.minimum(low.min(axis=1), 0)) / 255
    return float(np.square(steps).mean())


def _weight_noise(read: Array, factors: Array) -> float:
    """Return the sum of squares of the steps of (channels, outputs, taps) weights of a channel."""
    steps = np.abs(read.T / factors).max(axis=(0, 2)) / 127
    return float(np.square(steps).sum() * read.shape[2])


def within_clip(factors: Array, largest: Array, bounds: Array) -> Array:
    """Return the factors with which clips at ``bounds`` cut what they cut before, and no more.

    A channel that reaches the bound on the calibration images keeps its factor 1; another one may
    grow until it does, and may not shrink: the clip would let pass what it has to stop.

    Parameters
    ----------
    largest
        (channels,) largest value of each channel on the calibration images, after the clip.
    bounds
        (channels,) the upper bound of each channel's clip; infinite: any factor passes.
    """
    clipped = np.isfinite(bounds)
    bound = np.where(clipped, bounds, 1.0)
    largest = np.asarray(largest, np.float64)
    room = np.where(largest > 0, bound / np.maximum(largest, bound / LARGEST), 1.0)
    return np.where(clipped, np.clip(factors, 1.0, np.maximum(room, 1.0)), factors)


def within_range(factors: Array, largest: Array, bounds: Array) -> Array:
    """Return the factors by which no channel grows beyond its share of the tensor's range.

    The tensor has one scale. Without a limit the weights could let a channel grow without end
    (where they are zero but the bias is not), and all others would pay. A channel with a clip may
    fill the range, as no image goes beyond; another one leaves ``HEADROOM``.

    Parameters
    ----------
    largest
        (channels,) largest magnitude of each channel on the calibration images; a channel that was
        zero throughout does not grow.
    bounds
        (channels,) the upper bound of each channel's clip; infinite: none.
    """
    largest = np.asarray(largest, np.float64)
    used = largest > 0
    room = np.where(used, largest.max() / np.where(used, largest, 1.0), 1.0)
    room /= np.where(np.isfinite(bounds), 1.0, HEADROOM)
    return np.minimum(factors, np.maximum(room, 1.0))


def _ratio(a: Array, b: Array) -> Array:
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    used = (a > 0) & (b > 0)
    ratio: Array = np.where(used, a, 1.0) / np.where(used, b, 1.0)
    return ratio


def _factors(raw: Array) -> Array:
    clipped: Array = np.clip(raw, 1 / LARGEST, LARGEST)
    return clipped
