"""What was measured of one network with one batch on one device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from benchmarks.gpu.peaks import Peaks
from benchmarks.gpu.roofline import Layer
from benchmarks.gpu.systems import OWN, SYSTEMS
from benchmarks.gpu.turns import GpuTurn


@dataclass(frozen=True, kw_only=True)
class GpuMeasurement:
    """Turns of every system, in the order of the rounds.

    Parameters
    ----------
    macs
        Products of one image that lie inside the image.
    turns
        By key of ``SYSTEMS``; the turns of a round stand at the same index.
    cosines
        Of the logits and those that this project's network must give.
    wrong
        What was not bit for bit as computed at the build: by system of this project, or by kernel.
    checked
        Kernels whose every integer was compared with the NumPy oracle's.
    failures
        Systems and inspections that could not take part, and why.
    layers
        The kernels of this project, each by itself.
    """

    network: str
    image_size: int
    batch: int
    macs: int
    digest: str
    target: Mapping[str, object]
    peaks: Peaks
    turns: Mapping[str, tuple[GpuTurn, ...]]
    cosines: Mapping[str, float]
    wrong: Mapping[str, str] = field(default_factory=dict)
    checked: int = 0
    failures: Mapping[str, str] = field(default_factory=dict)
    layers: tuple[Layer, ...] = ()

    @property
    def own_failures(self) -> dict[str, str]:
        """What of this project failed, rather than of its peers."""
        return {
            key: reason
            for key, reason in self.failures.items()
            if key not in SYSTEMS or SYSTEMS[key].is_own
        }

    def times_s(self, system: str) -> np.ndarray:
        """Return the device's seconds for a run of the whole batch, round by round."""
        return np.array([turn.device_s for turn in self.turns[system]])

    def median_s(self, system: str) -> float:
        """Return the median over the rounds."""
        return float(np.median(self.times_s(system)))

    def alone_s(self, system: str) -> float:
        """Return the median of the host's seconds for a run that is waited for."""
        return float(np.median([turn.alone_s for turn in self.turns[system]]))

    def ratio(self, peer: str, own: str = OWN) -> float | None:
        """Return how many times longer ``peer`` took: the median over the rounds of the ratios."""
        if peer not in self.turns or own not in self.turns:
            return None
        return float(np.median(self.times_s(peer) / self.times_s(own)))

    def share_of_peak(self, system: str) -> float | None:
        """Return which part of the peak that the network's kernels are made for it reaches."""
        units = {layer.kernel.unit for layer in self.layers} - {""}
        rates = [rate for unit in units if (rate := self.peaks.macs_s(unit))]
        if not rates:
            return None
        return self.macs * self.batch / self.median_s(system) / max(rates)
