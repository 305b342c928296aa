"""The tables of ``relay-int8 bench --profile``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from relay_int8 import KernelTime, Profile

PARTS = ("products", "waiting", "memory", "other")


def print_profile(profile: Profile, title: str, top: int) -> None:
    """Print what the slowest ``top`` kernels, what is between them and the threads take."""
    from relay_int8.cli.terminal import show, table, terminal

    console = terminal()
    threads = f"{profile.threads} thread{'s' if profile.threads > 1 else ''}"
    numbers = ("ms", *PARTS, "GMAC/s", "MB")
    rows = table(console, "tensor", "kernel", *numbers, right=numbers)
    slowest = sorted(profile.kernels, key=lambda kernel: -kernel.total_ms)
    for kernel in slowest[:top]:
        rows.add_row(kernel.tensor, kernel.kernel, *_numbers([kernel]))
    if slowest[top:]:
        rows.add_row(f"{len(slowest) - top} other kernels", "", *_numbers(slowest[top:]))
    rows.add_row("between kernels", "", f"{profile.between_ms:.3f}")
    sums = _numbers(profile.kernels)
    rows.add_row("sum", "", f"{profile.total_ms:.3f}", *sums[1:])
    show(console, f"{title}, {threads}, batch {profile.batch}, milliseconds of a run", rows)
    _print_facts(profile, console)


def _numbers(kernels: Sequence[KernelTime]) -> list[str]:
    """Return milliseconds, those of each part, multiplications a second and megabytes."""
    total_ms = sum(kernel.total_ms for kernel in kernels)
    parts = [sum(getattr(kernel, f"{part}_ms") for kernel in kernels) for part in PARTS]
    macs = sum(kernel.multiplications for kernel in kernels)
    moved = sum(kernel.activation_bytes + kernel.constant_bytes for kernel in kernels)
    rate = f"{macs / total_ms / 1e6:.1f}" if macs else ""
    return [*(f"{value:.3f}" for value in (total_ms, *parts)), rate, f"{moved / 1e6:.2f}"]


def _print_facts(profile: Profile, console: Console) -> None:
    rates = profile.rates
    for number, worker in enumerate(profile.workers):
        console.print(
            f"thread {number}: busy {worker.busy_ms:.3f} ms, waiting {worker.waiting_ms:.3f} ms"
        )
    console.print(
        f"{profile.share_of_peak:.0%} of the run is products at the peak of {rates.instruction}: "
        f"{rates.peak_macs_s['int8'] / 1e9:.1f} GMAC/s a core"
    )
    bandwidths = (
        f"{rate / 1e9:.3g} of {_size(size)}" for size, rate in sorted(rates.bandwidths.items())
    )
    console.print(f"GB/s that all threads read: {', '.join(bandwidths)}")
    console.print(
        f"means of {profile.runs} runs; {profile.undisturbed_ms:.3f} ms is the median of runs in "
        "which nothing was noted"
    )


def _size(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MiB" if size_bytes >= 1 << 20 else f"{size_bytes >> 10} KiB"
