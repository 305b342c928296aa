"""Signal-to-noise ratios: how far one network's tensors are from another's, in decibels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Runs = Iterable[tuple[Mapping[str, Array], Mapping[str, Array]]]


def snr_db(reference: Array, other: Array) -> float | None:
    """Return ``10 log10(sum reference^2 / sum (reference - other)^2)``."""
    reference, other = reference.astype(np.float64), other.astype(np.float64)
    return power_ratio_db(float(np.sum(reference**2)), float(np.sum((reference - other) ** 2)))


def power_ratio_db(signal: float, noise: float) -> float | None:
    """Return ``10 log10(signal / noise)``; infinite without noise, None with noise alone."""
    if noise == 0:
        return float("inf")
    return 10 * float(np.log10(signal / noise)) if signal else None


def powers(runs: Runs) -> tuple[Array, Array]:
    """Return the power of the reference and of the difference: float64 (images, outputs) each.

    Parameters
    ----------
    runs
        Outputs of the reference and of the other network by name, one pair a run, images first.
    """
    signal, noise = [], []
    for wanted, approximate in runs:
        signal.append([_of_images(y) for y in wanted.values()])
        noise.append(
            [_of_images(approximate[name] - y.astype(np.float64)) for name, y in wanted.items()]
        )
    return np.concatenate(signal, axis=1).T, np.concatenate(noise, axis=1).T


def _of_images(y: Array) -> Array:
    sums: Array = np.square(y, dtype=np.float64).reshape(len(y), -1).sum(axis=1)
    return sums


def least_snr_db(runs: Runs) -> float:
    """Return the ratio of the least exact output over all images of all runs (see :func:`powers`).

    An output that is zero throughout, and is not in the other network, counts as -inf.
    """
    sums = (power.sum(axis=0) for power in powers(runs))
    ratios = [power_ratio_db(signal, noise) for signal, noise in zip(*sums, strict=True)]
    return min(-np.inf if ratio is None else ratio for ratio in ratios)
