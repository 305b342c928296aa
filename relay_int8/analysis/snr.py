"""Signal-to-noise ratios: how far one network's tensors are from another's, in decibels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def snr_db(reference: Array, other: Array) -> float | None:
    """Return ``10 log10(sum reference^2 / sum (reference - other)^2)``."""
    reference, other = reference.astype(np.float64), other.astype(np.float64)
    return power_ratio_db(float(np.sum(reference**2)), float(np.sum((reference - other) ** 2)))


def power_ratio_db(signal: float, noise: float) -> float | None:
    """Return ``10 log10(signal / noise)``; infinite without noise, None with noise alone."""
    if noise == 0:
        return float("inf")
    return 10 * float(np.log10(signal / noise)) if signal else None


def least_snr_db(runs: Iterable[tuple[Mapping[str, Array], Mapping[str, Array]]]) -> float:
    """Return the ratio of the least exact output over all runs.

    Parameters
    ----------
    runs
        Outputs of the reference and of the other network by name, one pair a run. An output that is
        zero throughout, and is not in the other network, counts as -inf.
    """
    signal: dict[str, float] = {}
    noise: dict[str, float] = {}
    for wanted, found in runs:
        for name, values in wanted.items():
            reference = values.astype(np.float64)
            signal[name] = signal.get(name, 0.0) + float(np.sum(reference**2))
            noise[name] = noise.get(name, 0.0) + float(np.sum((found[name] - reference) ** 2))
    ratios = [power_ratio_db(signal[name], noise[name]) for name in signal]
    return min(-np.inf if ratio is None else ratio for ratio in ratios)
