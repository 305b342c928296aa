"""What other methods would have chosen for a tensor whose counts were kept.

Only methods that count over the very same bins are asked, so each answer is the one that a
calibration by that method gives. A moving average is not among them: it follows the images, which
the counts have forgotten.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.choose import choose
from relay_int8.calibration.entry import Entry
from relay_int8.calibration.histogram import Histogram
from relay_int8.calibration.methods import METHODS, KlTensorrt, Method
from relay_int8.calibration.methods.divergence import divergences

Array = npt.NDArray[Any]


def alternatives(entry: Entry) -> dict[str, Entry]:
    """Return method -> the entry by that method; empty where the counts were not kept.

    Methods that leave zeros out are asked only where the zeros were counted, or where there can be
    none.
    """
    histogram = entry.histogram
    if histogram is None or not histogram.total:
        return {}
    return {
        name: replace(entry, histogram=None)
        if entry.method == str(method)  # which may have known what reads the tensor
        else choose(entry.scheme, entry.observed, histogram, method)
        for name, method in METHODS.items()
        if _counts_alike(method, entry, histogram)
    }


def _counts_alike(method: Method, entry: Entry, histogram: Histogram) -> bool:
    zeros_known = histogram.zeros > 0 or histogram.counts[0] == 0
    return (
        type(method).follow is Method.follow
        and method.grid(entry.scheme, entry.observed) == histogram.grid
        and (zeros_known or not method.counts_zeros)
    )


def divergence_curve(histogram: Histogram) -> tuple[Array, Array]:
    """Return thresholds, and KL(P || Q) of each: what ``kl-tensorrt`` searches the least of.

    Candidates whose divergence is infinite are left out; both arrays are empty for a histogram that
    is not one of ``|x|``, which has two ends to search.
    """
    if not histogram.grid.absolute:
        return np.empty(0), np.empty(0)
    levels = KlTensorrt.levels
    candidates = np.arange(levels, histogram.grid.bins)
    divergence = divergences(histogram.counts, levels, candidates)
    finite = np.isfinite(divergence)
    thresholds = [histogram.grid.above(int(kept) + 0.5) for kept in candidates[finite]]
    return np.array(thresholds), divergence[finite]
