"""From what was observed of a tensor to its range: the method's, cut to the values there were."""

from __future__ import annotations

import math

import numpy as np

from relay_int8.calibration.entry import Entry
from relay_int8.calibration.histogram import Histogram, Range
from relay_int8.calibration.methods import Method
from relay_int8.numerics.qparams import SMALLEST_THRESHOLD, Scheme


def choose(
    scheme: Scheme,
    observed: Range,
    histogram: Histogram,
    method: Method,
    *,
    keep_histogram: bool = False,
) -> Entry:
    """Return the entry of one tensor: its range by ``method``, cut to what was observed.

    An all-zero tensor, or one whose range is below 2**-110, gets the range [0, 0], which stands for
    scale 1 (``qparams.activation``); a note says so. A constant keeps a range that reaches from
    zero to it, with a note.
    """
    notes = []
    if observed.nonfinite:
        notes.append(f"{observed.nonfinite} values were NaN or infinite and were left out")
    low, high = _cut(scheme, observed, _thresholds(scheme, observed, histogram, method))
    if high - low < SMALLEST_THRESHOLD:
        low = high = np.float32(0)
        notes.append("all values are zero (or below 2**-110): its scale is 1")
    elif observed.low == observed.high:
        notes.append(f"all values are {observed.low!s}")
    return Entry(
        scheme=scheme,
        low=low,
        high=high,
        observed=observed,
        method=str(method),
        histogram=histogram if keep_histogram else None,
        notes=tuple(notes),
    )


def _thresholds(
    scheme: Scheme, observed: Range, histogram: Histogram, method: Method
) -> tuple[float, float]:
    if observed.low == observed.high:
        return -math.inf, math.inf  # one value: there is nothing to weigh
    low, high = method.thresholds(histogram, scheme)
    return -high if histogram.grid.absolute else low, high


def _cut(
    scheme: Scheme, observed: Range, thresholds: tuple[float, float]
) -> tuple[np.float32, np.float32]:
    low, high = thresholds
    least, most = float(observed.low), float(observed.high)
    if scheme == "asymmetric":
        return np.float32(max(low, min(least, 0.0))), np.float32(min(high, max(most, 0.0)))
    threshold = np.float32(min(high, max(-least, most)))
    return (np.float32(0) if scheme == "u8" else -threshold), threshold
