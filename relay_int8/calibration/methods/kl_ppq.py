"""The KL search of PPQ.

Source: PPQ 0.6.6, ``quantization/observer/range.py``, ``TorchHistObserver``. It is TPU-MLIR's
(:mod:`~relay_int8.calibration.methods.kl_tpu_mlir`) over 4096 bins of ``|x|`` that begin at zero,
zeros counted, after ``bins[0:8] = 0; bins[8] = 1``: what is smaller than 1/512 of the largest value
does not count. Candidates are 128, 256, ..., 4096; ties go to the first.

PPQ keeps a scale, ``T / 128``; T is the best candidate's upper edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from relay_int8.calibration.histogram import Histogram
from relay_int8.calibration.methods.base import SymmetricMethod
from relay_int8.calibration.methods.divergence import least
from relay_int8.calibration.methods.kl_tpu_mlir import LEVELS, whole_level_divergences
from relay_int8.numerics.qparams import Scheme

IGNORED = 0.002  # share of the bins, from the first on, that the search leaves out


@dataclass(frozen=True)
class KlPpq(SymmetricMethod):
    """PPQ's threshold of least divergence."""

    name: ClassVar[str] = "kl-ppq"
    bins: ClassVar[int] = 4096

    def thresholds(self, histogram: Histogram, scheme: Scheme = "s8") -> tuple[float, float]:
        """Return (0, T)."""
        counts = np.array(histogram.counts)
        if not counts.any():
            return 0.0, float(histogram.grid.high)
        ignored = int(len(counts) * IGNORED)
        counts[:ignored] = 0
        counts[ignored] = 1
        best = least(np.array(whole_level_divergences(counts, LEVELS)))
        assert best is not None
        return 0.0, histogram.grid.above((best + 1) * LEVELS)
