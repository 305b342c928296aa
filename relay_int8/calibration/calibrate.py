"""From calibration images to a range per tensor, in two passes over the data.

The first pass finds the exact range of every tensor, the second counts values over bins of that
range; a method that reads no counts needs the first alone. What is merged from image to image are
minima, maxima, integer counts and exact sums, so the table does not depend on order or batch size,
and memory does not depend on the number of images.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from relay_int8.calibration.entry import Entry
from relay_int8.calibration.histogram import Grid, Histogram, Range
from relay_int8.calibration.means import ChannelMeans
from relay_int8.calibration.methods import Method, find_method
from relay_int8.calibration.observe import Image, Progress, Runner
from relay_int8.calibration.table import CalibrationTable
from relay_int8.errors import CalibrationError
from relay_int8.qparams import SMALLEST_THRESHOLD, PlannedScheme, Scheme, resolve_scheme

FEW_IMAGES = 20
FLOAT32_MAX = float(np.finfo(np.float32).max)


def calibrate(
    runner: Runner,
    tensors: Mapping[str, PlannedScheme],
    data: Iterable[Image],
    *,
    method: str | Method = "max",
    model_hash: str = "",
    keep_histograms: bool = False,
    progress: Progress | None = None,
) -> CalibrationTable:
    """Return a range for every tensor.

    Parameters
    ----------
    runner
        The float network.
    tensors
        Name -> scheme of every tensor that needs a range; "input" becomes u8 or s8 by its data.
    data
        Images; iterated once a pass, so a :class:`~relay_int8.calibration.data.Dataset`.
    method
        A name of ``METHODS``, or a method with its own parameters.
    model_hash
        Of the float model, kept in the table.
    keep_histograms
        Whether the table carries the counts; costs the second pass with every method.
    progress
        Called after every image.

    Raises
    ------
    CalibrationError
        The data or a tensor cannot be calibrated with.
    """
    chosen = find_method(method)
    observed, followed, means, images = _statistics(runner, tensors, data, chosen, progress)
    schemes = {name: resolve_scheme(tensors[name], float(observed[name].low)) for name in tensors}
    _require_sound(schemes, observed)
    grids = {name: chosen.grid(scheme, followed[name]) for name, scheme in schemes.items()}
    if chosen.needs_counts or keep_histograms:
        histograms = _histograms(runner, grids, data, images, chosen.counts_zeros, progress)
    else:
        histograms = {name: _empty(grid) for name, grid in grids.items()}
    entries = {
        name: choose(
            scheme, observed[name], histograms[name], chosen, keep_histogram=keep_histograms
        )
        for name, scheme in schemes.items()
    }
    few = f"only {images} images; {FEW_IMAGES} or more, better a few hundred, make ranges reliable"
    return CalibrationTable(
        entries=entries,
        means={name: found.mean() for name, found in means.items()},
        model_hash=model_hash,
        images=images,
        notes=(few,) if images < FEW_IMAGES else (),
    )


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


def _statistics(
    runner: Runner,
    tensors: Iterable[str],
    data: Iterable[Image],
    method: Method,
    progress: Progress | None,
) -> tuple[dict[str, Range], dict[str, Range], dict[str, ChannelMeans], int]:
    observed, followed = dict.fromkeys(tensors, Range()), dict.fromkeys(tensors, Range())
    means: dict[str, ChannelMeans] = {}
    images = 0
    for image in data:
        found = runner.statistics(image)
        for name in tensors:
            seen = Range.from_statistic(found.ranges[name])
            observed[name] = observed[name].merge(seen)
            followed[name] = method.follow(followed[name], seen)
        for name, values in found.means.items():
            one = ChannelMeans.of(values)
            means[name] = means[name].merge(one) if name in means else one
        images += 1
        if progress:
            progress("ranges", images, None)
    return observed, followed, means, images


def _histograms(
    runner: Runner,
    grids: Mapping[str, Grid],
    data: Iterable[Image],
    images: int,
    count_zeros: bool,
    progress: Progress | None,
) -> dict[str, Histogram]:
    counts = {name: np.zeros(grid.bins, np.int64) for name, grid in grids.items()}
    zeros = dict.fromkeys(grids, 0)
    of_zeros = {name: Grid.of_zeros(grid.bins) for name, grid in grids.items()}
    done = 0
    for image in data:
        for name, found in runner.histograms(image, grids).items():
            counts[name] += found
        if count_zeros:
            for name, found in runner.histograms(image, of_zeros).items():
                zeros[name] += int(found[0])
        done += 1
        if progress:
            progress("histograms", done, images)
    if done != images:
        raise CalibrationError(
            f"the first pass over the data gave {images} images, the second {done}; give a list, "
            "or a function that returns the same batches each time it is called"
        )
    return {name: Histogram(grid, counts[name], zeros[name]) for name, grid in grids.items()}


def _empty(grid: Grid) -> Histogram:
    return Histogram(grid, np.zeros(grid.bins, np.int64))


def _require_sound(schemes: Mapping[str, Scheme], observed: Mapping[str, Range]) -> None:
    faults = []
    for name, scheme in schemes.items():
        found = observed[name]
        if found.empty:
            faults.append(f"{name} has no finite value ({found.nonfinite} are NaN or infinite)")
        elif scheme == "u8" and found.low < 0:
            faults.append(f"{name} was planned as never negative (u8), but falls to {found.low!s}")
        elif scheme == "asymmetric" and float(found.high) - float(found.low) > FLOAT32_MAX:
            faults.append(f"{name} spans [{found.low!s}, {found.high!s}], more than float32 holds")
    if faults:
        raise CalibrationError(
            f"these tensors cannot be calibrated: {'; '.join(faults)}; leave them float, or plan "
            "them signed"
        )
