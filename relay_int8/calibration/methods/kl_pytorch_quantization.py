"""The entropy calibrator of NVIDIA's pytorch-quantization, which modelopt inherited.

Source: pytorch-quantization 2.1, ``calib/histogram.py``, ``_compute_amax_entropy``. It is the
search of the TensorRT deck (:mod:`~relay_int8.calibration.methods.kl_tensorrt`) with these
differences:

- ``bins[0] = bins[1]``: the spike at zero does not count;
- candidates 128 .. number of bins, all of them included: "nothing saturates" is one;
- 256 levels where the tensor is unsigned, from candidate 128 on all the same;
- ties: the last, that is the largest threshold;
- T is the candidate's upper edge, ``m * bin width``, no half bin is added.

Its ``_normalize_distr`` throws its result away; ``scipy.stats.entropy`` normalizes. A candidate
whose last bin is empty while values lie beyond is infinite, as in the deck's.

The published histogram grows batch by batch at the bin width that the first batch happened to have.
Here it is the one of a single batch that holds all data: 2048 bins over [0, max|x|].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from relay_int8.calibration.histogram import Histogram
from relay_int8.calibration.methods.base import SymmetricMethod
from relay_int8.calibration.methods.divergence import divergences, least
from relay_int8.numerics.qparams import Scheme

FIRST = 128


@dataclass(frozen=True)
class KlPytorchQuantization(SymmetricMethod):
    """pytorch-quantization's threshold of least divergence."""

    name: ClassVar[str] = "kl-pytorch-quantization"

    def thresholds(self, histogram: Histogram, scheme: Scheme = "s8") -> tuple[float, float]:
        """Return (0, T)."""
        counts = np.array(histogram.counts)
        counts[0] = counts[1]
        candidates = np.arange(FIRST, len(counts) + 1)
        best = least(divergences(counts, 256 if scheme == "u8" else 128, candidates), last=True)
        kept = len(counts) if best is None else int(candidates[best])
        return 0.0, histogram.grid.above(kept)
