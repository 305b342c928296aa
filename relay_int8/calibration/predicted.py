"""Predict from a histogram what a range does to a tensor: its integers, saturation and noise.

Every value counts as the middle of its bin, those of the first bin of ``|x|`` as zero, which most
of them are where a ReLU came before. Bins are narrow beside the steps between integers (2048 of
them to at most 256 steps, unless most of the range is cut off), so the numbers are near to exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.histogram import Histogram
from relay_int8.numerics.qparams import QParams
from relay_int8.numerics.snr import power_ratio_db

Array = npt.NDArray[Any]


def integer_counts(histogram: Histogram, params: QParams) -> tuple[Array, Array]:
    """Return the integers from the least to the greatest, and how many values become each.

    Of a histogram of ``|x|`` these are the integers of the magnitudes.
    """
    integers = np.arange(
        params.zero_point if histogram.grid.absolute else params.qmin, params.qmax + 1
    )
    positions = _integers(_values(histogram), params) - integers[0]
    counts = np.bincount(positions, weights=histogram.counts, minlength=len(integers))
    return integers, counts.astype(np.int64)


def cut_share(histogram: Histogram, params: QParams) -> float:
    """Return the share of the values that lie beyond the range."""
    if not histogram.total:
        return 0.0
    values = _values(histogram)
    low, high = (float(params.scale) * (q - params.zero_point) for q in (params.qmin, params.qmax))
    below = (values < low) & (not histogram.grid.absolute)
    return float(histogram.counts[below | (values > high)].sum() / histogram.total)


def predicted_snr_db(histogram: Histogram, params: QParams) -> float | None:
    """Return the power of the values over that of what quantizing them changes, in dB.

    None where all values are zero; infinite where nothing is changed.
    """
    values = _values(histogram)
    restored = float(params.scale) * (_integers(values, params) - params.zero_point)
    signal = float(histogram.counts @ values**2)
    noise = float(histogram.counts @ (values - restored) ** 2)
    return power_ratio_db(signal, noise) if signal else None


def _values(histogram: Histogram) -> Array:
    grid = histogram.grid
    values = float(grid.low) + (np.arange(grid.bins) + 0.5) * float(grid.width)
    if grid.absolute:
        values[0] = 0.0
    return values


def _integers(values: Array, params: QParams) -> Array:
    steps = np.rint(values / float(params.scale)) + params.zero_point
    integers: Array = np.clip(steps, params.qmin, params.qmax).astype(np.int64)
    return integers
