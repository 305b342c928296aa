"""The parts of a run's time, from recorded times of calls and threads.

The parts of a kernel that takes t seconds on n threads, each at most what those before it leave:

- **products**: its multiplications at n times the peak of one core's instruction; those of
  Winograd's algorithm count as the direct ones in whose place they are, and so may be all of t;
- **waiting**: t less the mean time that the n threads were busy. A thread is busy from the
  beginning to the end of its task; the first one also while nothing is parallel;
- **memory**: the bytes it reads and writes over the measured bandwidth, less its products: both
  can go on at the same time, so that only the longer one is seen (the roofline model);
- **other**: the rest. Loops, epilogues, ragged tiles, what is no product at all.

What is left of the run is between kernels: the list of a run's calls, or TVM's virtual machine
where each run may make others. All are means over the same runs, so that they add up; those runs
are the half around the median.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from relay_int8.compiler.run_recorder import Recording
from relay_int8.report.profile import KernelTime, Profile, Rates, ThreadTime
from relay_int8.runtime.instrument import BUILTIN
from relay_int8.runtime.kernel_entry import KernelEntry


def profile_of(
    recording: Recording,
    entries: Sequence[KernelEntry],
    rates: Rates,
    *,
    threads: int,
    batch: int,
    undisturbed_ms: float,
) -> Profile:
    """Return the profile of recorded runs.

    Parameters
    ----------
    recording
        Times of calls and of threads.
    entries
        What the artifact says of its kernel calls, in the order of execution, for ``batch`` images;
        a call that has become a view is not among those recorded.
    rates
        What this computer can do with these threads.
    threads, batch, undisturbed_ms
        As the profile has them.
    """
    took = recording.runs[:, 1] - recording.runs[:, 0]
    chosen = np.argsort(took, kind="stable")[len(took) // 4 : -(-3 * len(took) // 4)]
    busy = _busy_ns(recording, threads)[chosen].mean(axis=0) / 1e6
    calls_ms = (recording.calls[..., 1] - recording.calls[..., 0])[chosen].mean(axis=0) / 1e6
    kernel_calls = [i for i, name in enumerate(recording.names) if not name.startswith(BUILTIN)]
    names = [recording.names[call] for call in kernel_calls]
    described = list(_described(names, entries))
    footprint = footprint_bytes(described)
    kernels = tuple(
        _split(calls_ms[call], busy[call].mean(), entry, rates, threads, footprint)
        for call, entry in zip(kernel_calls, described, strict=True)
    )
    in_kernels_ms = float(calls_ms[kernel_calls].sum())
    busy_ms = busy[kernel_calls].sum(axis=0)
    return Profile(
        threads=threads,
        batch=batch,
        runs=len(chosen),
        kernels=kernels,
        workers=tuple(ThreadTime(busy_ms=float(b), waiting_ms=in_kernels_ms - b) for b in busy_ms),
        between_ms=float(took[chosen].mean() / 1e6) - in_kernels_ms,
        undisturbed_ms=undisturbed_ms,
        rates=rates,
    )


def footprint_bytes(entries: Sequence[KernelEntry]) -> int:
    """Return the bytes that pass from one use of a constant to the next.

    These are all constants and, since kernels use the same memory in turns, the activations of the
    kernel that has the largest.
    """
    activations = max((entry.activation_bytes for entry in entries), default=0)
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
        indices = (i for i in range(start, len(entries)) if entries[i].function == name)
        index = next(indices, None)
        if index is None:
            yield KernelEntry(function=name, name=name, tensor=name)
        else:
            start = index + 1
            yield entries[index]


def _split(
    total_ms: float,
    busy_ms: float,
    entry: KernelEntry,
    rates: Rates,
    threads: int,
    footprint: int,
) -> KernelTime:
    """Return a kernel's parts; constants come from where ``footprint`` bytes have room."""
    peak = rates.peak_macs_s[entry.arithmetic] * threads
    moving_ms = 1e3 * (
        entry.activation_bytes / rates.bandwidth(entry.activation_bytes + entry.constant_bytes)
        + entry.constant_bytes / rates.bandwidth(footprint)
    )
    products_ms = min(1e3 * entry.multiplications / peak, total_ms)
    waiting_ms = min(max(total_ms - busy_ms, 0.0), total_ms - products_ms)
    memory_ms = min(max(moving_ms - products_ms, 0.0), total_ms - products_ms - waiting_ms)
    return KernelTime(
        tensor=entry.tensor,
        kernel=entry.template or entry.function,
        products_ms=float(products_ms),
        waiting_ms=float(waiting_ms),
        memory_ms=float(memory_ms),
        other_ms=float(total_ms - products_ms - waiting_ms - memory_ms),
        multiplications=entry.multiplications,
        activation_bytes=entry.activation_bytes,
        constant_bytes=entry.constant_bytes,
    )
