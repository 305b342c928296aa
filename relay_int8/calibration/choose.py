"""From what was observed of a tensor to its range: the method's, cut to the values there were.

A method may ask for a margin beyond these, where values to come are expected to exceed them.
"""

from __future__ import annotations

import math

import numpy as np

from relay_int8.calibration.entry import Entry
from relay_int8.calibration.histogram import Histogram, Range
from relay_int8.calibration.methods import Method
from relay_int8.calibration.methods.base import Function
from relay_int8.numerics.qparams import SMALLEST_THRESHOLD, Scheme

FLOAT32_MAX = float(np.finfo(np.float32).max)


def choose(
    scheme: Scheme,
    observed: Range,
    histogram: Histogram,
    method: Method,
    *,
    function: Function | None = None,
    keep_histogram: bool = False,
) -> Entry:
    """Return the entry of one tensor: its range by ``method``, cut to what was observed.

    An end at which nothing is cut moves outward by the method's margin. ``function`` is what reads
    the tensor, where nothing else does.

    An all-zero tensor, or one whose range is below 2**-110, gets the range [0, 0], which stands for
    scale 1 (``qparams.activation``); a note says so. A constant keeps a range that reaches from
    zero to it, with a note.
    """
    notes = []
    if observed.nonfinite:
        notes.append(f"{observed.nonfinite} values were NaN or infinite and were left out")
    low, high = _cut(scheme, observed, _thresholds(scheme, observed, histogram, method, function))
    if float(high) - float(low) < SMALLEST_THRESHOLD:
        low = high = np.float32(0)
        notes.append("all values are zero (or below 2**-110): its scale is 1")
    elif observed.low == observed.high:
        notes.append(f"all values are {observed.low!s}")
    else:
        low, high = _widened(scheme, observed, (low, high), method.margins(histogram, scheme))
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
    scheme: Scheme,
    observed: Range,
    histogram: Histogram,
    method: Method,
    function: Function | None,
) -> tuple[float, float]:
    if observed.low == observed.high:
        return -math.inf, math.inf  # one value: there is nothing to weigh
    if function is None:
        low, high = method.thresholds(histogram, scheme)
    else:
        low, high = method.thresholds_behind(function, histogram, scheme)
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


def _widened(
    scheme: Scheme,
    observed: Range,
    chosen: tuple[np.float32, np.float32],
    margins: tuple[float, float],
) -> tuple[np.float32, np.float32]:
    """Return the range with its margins, at the ends that are the observed ones."""
    low, high = chosen
    least, most = min(observed.low, np.float32(0)), max(observed.high, np.float32(0))
    if scheme != "asymmetric":
        farther = _finite(float(high) + margins[1]) if high == max(-least, most) else high
        return (low if scheme == "u8" else -farther), farther
    return (
        _finite(float(low) - margins[0]) if low == least else low,
        _finite(float(high) + margins[1]) if high == most else high,
    )


def _finite(value: float) -> np.float32:
    return np.float32(min(max(value, -FLOAT32_MAX), FLOAT32_MAX))
