"""Where the time of a run goes: a profile whose parts add up to the whole run.

The parts of a kernel that takes t seconds on n threads, each at most what those before it leave:

- **products**: its multiplications at n times the peak of one core's instruction; those of
  Winograd's algorithm count as the direct ones in whose place they are, and so may be all of t;
- **waiting**: t less the mean time that the n threads were busy. A thread is busy from the
  beginning to the end of its task; the first one also while nothing is parallel;
- **memory**: the bytes it reads and writes over the measured bandwidth, less its products: both
  can go on at the same time, so that only the longer one is seen (the roofline model);
- **other**: the rest. Loops, epilogues, ragged tiles, what is no product at all.

What is left of the run is the virtual machine's, between kernels. All are means over the same
runs, so that they add up; those runs are the half around the median.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from relay_int8 import finite_json
from relay_int8.runtime.kernel_entry import KernelEntry

if TYPE_CHECKING:
    from relay_int8.compiler.run_recorder import Recording

PARTS = ("products", "waiting", "memory", "other")
BUILTIN = "vm.builtin."  # begins the names of the virtual machine's own calls


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
class Worker:
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
        Of the virtual machine between kernels: whole run less kernels.
    undisturbed_ms
        Median of runs in which nothing was noted, for comparison.
    rates
        What products and memory are measured against.
    """

    threads: int
    batch: int
    runs: int
    kernels: tuple[KernelTime, ...]
    workers: tuple[Worker, ...]
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


def profile_of(
    recording: Recording,
    entries: Sequence[KernelEntry],
    rates: Rates,
    *,
    threads: int,
    batch: int,
    undisturbed_ms: float,
    scale: int = 1,
) -> Profile:
    """Return the profile of recorded runs.

    Parameters
    ----------
    recording
        Times of calls and of threads.
    entries
        What the artifact says of its kernel calls, in the order of execution; a call that has
        become a view is not among those recorded.
    rates
        What this computer can do with these threads.
    threads, batch, undisturbed_ms
        As the profile has them.
    scale
        How often multiplications and activations of entries count: those of a network whose batch
        is open are for one image.
    """
    took = recording.runs[:, 1] - recording.runs[:, 0]
    chosen = np.argsort(took, kind="stable")[len(took) // 4 : -(-3 * len(took) // 4)]
    busy = _busy_ns(recording, threads)[chosen].mean(axis=0) / 1e6
    calls_ms = (recording.calls[..., 1] - recording.calls[..., 0])[chosen].mean(axis=0) / 1e6
    kernel_calls = [i for i, name in enumerate(recording.names) if not name.startswith(BUILTIN)]
    names = [recording.names[call] for call in kernel_calls]
    described = list(_described(names, entries))
    footprint = footprint_bytes(described, scale)
    kernels = tuple(
        _split(calls_ms[call], busy[call].mean(), entry, rates, threads, scale, footprint)
        for call, entry in zip(kernel_calls, described, strict=True)
    )
    in_kernels_ms = float(calls_ms[kernel_calls].sum())
    busy_ms = busy[kernel_calls].sum(axis=0)
    return Profile(
        threads=threads,
        batch=batch,
        runs=len(chosen),
        kernels=kernels,
        workers=tuple(Worker(busy_ms=float(b), waiting_ms=in_kernels_ms - b) for b in busy_ms),
        between_ms=float(took[chosen].mean() / 1e6) - in_kernels_ms,
        undisturbed_ms=undisturbed_ms,
        rates=rates,
    )


def footprint_bytes(entries: Sequence[KernelEntry], scale: int = 1) -> int:
    """Return the bytes that pass from one use of a constant to the next.

    These are all constants and, since kernels use the same memory in turns, the activations of the
    kernel that has the largest.
    """
    activations = max((scale * entry.activation_bytes for entry in entries), default=0)
    return sum(entry.constant_bytes for entry in entries) + activations


def _busy_ns(recording: Recording, threads: int) -> np.ndarray[Any, Any]:
    """Return (runs, calls, threads): how long each thread was busy in each call.

    The first one has all of a call that is not in a parallel region.
    """
    calls, regions = recording.calls, recording.regions
    busy = np.zeros((*calls.shape[:2], threads))
    busy[..., 0] = calls[..., 1] - calls[..., 0]
    # Calls follow each other, so the last one that began before a launch is the one it belongs to.
    owners = np.searchsorted(calls[..., 0].ravel(), regions[:, 0], side="right") - 1
    flat = busy.reshape(-1, threads)
    tasks = regions[:, 2:].reshape(len(regions), threads, 2)
    np.add.at(flat, owners, tasks[..., 1] - tasks[..., 0])
    np.add.at(flat[:, 0], owners, regions[:, 0] - regions[:, 1])
    return busy


def _described(names: Sequence[str], entries: Sequence[KernelEntry]) -> Iterator[KernelEntry]:
    """Yield the entry of each kernel that ran; one with its name alone where there is none."""
    start = 0
    for name in names:
        places = (at for at in range(start, len(entries)) if entries[at].function == name)
        place = next(places, None)
        if place is None:
            yield KernelEntry(function=name, name=name, tensor=name)
        else:
            start = place + 1
            yield entries[place]


def _split(
    total_ms: float,
    busy_ms: float,
    entry: KernelEntry,
    rates: Rates,
    threads: int,
    scale: int,
    footprint: int,
) -> KernelTime:
    """Return a kernel's parts; constants come from where ``footprint`` bytes have room."""
    multiplications = scale * entry.multiplications
    activation_bytes = scale * entry.activation_bytes
    peak = rates.peak_macs_s[entry.arithmetic] * threads
    moving_ms = 1e3 * (
        activation_bytes / rates.bandwidth(activation_bytes + entry.constant_bytes)
        + entry.constant_bytes / rates.bandwidth(footprint)
    )
    products_ms = min(1e3 * multiplications / peak, total_ms)
    waiting_ms = min(max(total_ms - busy_ms, 0.0), total_ms - products_ms)
    memory_ms = min(max(moving_ms - products_ms, 0.0), total_ms - products_ms - waiting_ms)
    return KernelTime(
        tensor=entry.tensor,
        kernel=entry.template or entry.function,
        products_ms=float(products_ms),
        waiting_ms=float(waiting_ms),
        memory_ms=float(memory_ms),
        other_ms=float(total_ms - products_ms - waiting_ms - memory_ms),
        multiplications=multiplications,
        activation_bytes=activation_bytes,
        constant_bytes=entry.constant_bytes,
    )
