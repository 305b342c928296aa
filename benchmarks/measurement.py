"""What was measured of one network with one batch and one number of threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from benchmarks.systems import SYSTEMS, Family, Goal
from benchmarks.turn import Turn

Clock = Literal["wall", "cpu"]


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Turns of every system, in the order of the rounds.

    Parameters
    ----------
    macs
        Multiplications of one image whose pixel lies inside the image; None where not known.
    peak_macs_s
        What the best instruction for integers reaches on one core, measured beside the turns.
    turns
        By key of ``SYSTEMS``; the turns of a round stand at the same index.
    cosines
        Of the logits and those of the float32 network.
    snr_db
        Signal to noise of the logits, in decibels; the noise is their difference from float32's.
    failures
        Systems that could not take part, and why.
    """

    network: str
    image_size: int
    batch: int
    threads: int
    clock: Clock
    macs: int | None
    peak_macs_s: float | None
    turns: Mapping[str, tuple[Turn, ...]]
    cosines: Mapping[str, float]
    snr_db: Mapping[str, float | None]
    failures: Mapping[str, str] = field(default_factory=dict)

    def times_s(self, system: str) -> np.ndarray:
        """Return the seconds of a run of the whole batch, round by round."""
        turns = self.turns[system]
        return np.array([turn.cpu_s if self.clock == "cpu" else turn.wall_s for turn in turns])

    def median_s(self, system: str) -> float:
        """Return the median over the rounds."""
        return float(np.median(self.times_s(system)))

    def fastest(self, family: Family, goal: Goal) -> str | None:
        """Return the family's system of least median for a goal, if any ran."""
        ran = [
            key for key in self.turns if (SYSTEMS[key].family, SYSTEMS[key].goal) == (family, goal)
        ]
        return min(ran, key=self.median_s, default=None)

    def ratio(self, peer: str | None, own: str | None) -> float | None:
        """Return how many times longer ``peer`` took: the median over the rounds of the ratios."""
        if peer is None or own is None:
            return None
        return float(np.median(self.times_s(peer) / self.times_s(own)))

    def share_of_peak(self, system: str) -> float | None:
        """Return which part of the threads' peak the whole network reaches."""
        if self.peak_macs_s is None or self.macs is None:
            return None
        return self.macs * self.batch / self.median_s(system) / (self.peak_macs_s * self.threads)

    @property
    def core_share(self) -> float:
        """How much of its core a process had, median of all turns; for one thread, 1 is quiet."""
        turns = [turn for system in self.turns.values() for turn in system]
        return float(np.median([turn.cpu_s / turn.wall_s for turn in turns])) if turns else 0.0
