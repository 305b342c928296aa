"""Where the time of a run goes: a profile whose parts add up to the whole run.

:mod:`relay_int8.report.profile_parts` says what the parts are, and measures them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relay_int8 import finite_json

PARTS = ("products", "waiting", "memory", "other")


@dataclass(frozen=True, kw_only=True)
class Rates:
    """What was measured of this computer.

    Parameters
    ----------
    instruction
        The one whose peak counts for integers.
    peak_macs_s
        Multiplications a second of one core by type, "int8" and "float32".
    bandwidths
        Bytes of a buffer -> bytes a second that all threads together read of it.
    """

    instruction: str
    peak_macs_s: Mapping[str, float]
    bandwidths: Mapping[int, float]

    def bandwidth(self, size_bytes: int) -> float:
        """Return the bytes a second of the smallest buffer that is no smaller; of the largest."""
        sizes = sorted(self.bandwidths)
        return self.bandwidths[next((size for size in sizes if size >= size_bytes), sizes[-1])]


@dataclass(frozen=True, kw_only=True)
class KernelTime:
    """One kernel of a network, and the milliseconds of its parts; see the module.

    Parameters
    ----------
    tensor
        What it computes; the name of its function where the artifact does not say.
    kernel
        Its template, or its function.
    """

    tensor: str
    kernel: str
    products_ms: float
    waiting_ms: float
    memory_ms: float
    other_ms: float
    multiplications: int = 0
    activation_bytes: int = 0
    constant_bytes: int = 0

    @property
    def total_ms(self) -> float:
        """Milliseconds of the whole kernel."""
        return self.products_ms + self.waiting_ms + self.memory_ms + self.other_ms


@dataclass(frozen=True, kw_only=True)
class ThreadTime:
    """Milliseconds of one thread within kernels, in a run."""

    busy_ms: float
    waiting_ms: float


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Where the time of a run goes, on some number of threads.

    Parameters
    ----------
    threads, batch
        With which it was measured.
    runs
        How many runs the means are of.
    kernels
        In the order of execution.
    workers
        One for each thread; the first is the one that calls.
    between_ms
        Between kernels: whole run less kernels.
    undisturbed_ms
        Median of runs in which nothing was noted, for comparison.
    rates
        What products and memory are measured against.
    """

    threads: int
    batch: int
    runs: int
    kernels: tuple[KernelTime, ...]
    workers: tuple[ThreadTime, ...]
    between_ms: float
    undisturbed_ms: float
    rates: Rates

    def __repr__(self) -> str:
        """Return the whole and its parts."""
        parts = ", ".join(f"{name} {value:.3f}" for name, value in self.parts_ms.items())
        return f"<Profile on {self.threads} threads: {self.total_ms:.3f} ms = {parts}>"

    @property
    def total_ms(self) -> float:
        """Milliseconds of a whole run: the sum of all parts."""
        return sum(self.parts_ms.values())

    @property
    def parts_ms(self) -> dict[str, float]:
        """Milliseconds of each part over all kernels, and of what is between them."""
        sums = {part: sum(getattr(each, f"{part}_ms") for each in self.kernels) for part in PARTS}
        return {**sums, "between": self.between_ms}

    @property
    def share_of_peak(self) -> float:
        """Which part of a run its products would take at the peak of all threads."""
        return self.parts_ms["products"] / self.total_ms

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, sums included."""
        kernels = [
            {**dataclasses.asdict(kernel), "total_ms": kernel.total_ms} for kernel in self.kernels
        ]
        sums = {"total_ms": self.total_ms, "parts_ms": self.parts_ms}
        return {
            **dataclasses.asdict(self),
            "kernels": kernels,
            **sums,
            "share_of_peak": self.share_of_peak,
        }

    def to_json(self) -> str:
        """Return everything as JSON text."""
        return finite_json.dumps(self.to_dict())
