"""What bounds a kernel: its products, the bytes that it moves, or that it is launched at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from benchmarks.gpu.bundle import Kernel
from benchmarks.gpu.peaks import Peaks

Bound = Literal["compute", "memory", "launch", ""]


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One kernel as it ran.

    Parameters
    ----------
    seconds
        By itself, in a graph of nothing but it: inputs and weights may lie in the L2 cache.
    peak
        Share of the measured peak of its unit; None for kernels that multiply nothing by it.
    bound
        Which of the three takes longest at the measured peaks; empty where they are not known.
    share
        Of the time that this bound alone would take: 1 is as fast as it can be.
    """

    kernel: Kernel
    seconds: float
    peak: float | None
    bound: Bound
    share: float | None


def layer(kernel: Kernel, seconds: float, peaks: Peaks) -> Layer:
    """Return what a kernel's time means on a device of these ``peaks``."""
    rate = peaks.macs_s(kernel.unit)
    floors: dict[Bound, float] = {}
    if rate and kernel.macs:
        floors["compute"] = kernel.macs / rate
    if peaks.copy_bytes_s:
        floors["memory"] = kernel.moved_bytes / peaks.copy_bytes_s
    if peaks.launch_s:
        floors["launch"] = peaks.launch_s
    bound: Bound = max(floors, key=lambda name: floors[name], default="")
    return Layer(
        kernel=kernel,
        seconds=seconds,
        peak=floors["compute"] / seconds if "compute" in floors else None,
        bound=bound,
        share=floors[bound] / seconds if bound else None,
    )
