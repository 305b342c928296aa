"""One turn of a network on a device: how long a run takes, and how long one takes by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.gpu.device import Device

ALONE = 10  # runs that are waited for, one by one
MOST_RUNS = 10_000


@dataclass(frozen=True, kw_only=True)
class GpuTurn:
    """Seconds of a run of the whole batch.

    Parameters
    ----------
    device_s
        Mean of runs that were enqueued back to back, between two events of the device.
    alone_s
        Median of runs that were waited for one by one, by the host's clock: launch, run and
        waiting.
    sm_mhz
        The clock right after the runs, as NVIDIA's management library says; None where it does not.
    """

    device_s: float
    alone_s: float
    sm_mhz: float | None = None


def take_turn(device: Device, run: Callable[[], object], seconds: float) -> GpuTurn:
    """Run for ``seconds`` or a little longer, after a tenth of that to warm up."""
    once = _alone(device, run)
    runs = max(1, min(MOST_RUNS, round(seconds / 10 / once)))
    once = max(device.seconds(run, runs) / runs, 1e-9)
    runs = max(1, min(MOST_RUNS, round(seconds / once)))
    mean = device.seconds(run, runs) / runs
    clock = device.reading().get("sm_mhz")
    alone = sorted(_alone(device, run) for _ in range(ALONE))
    middle = (alone[ALONE // 2] + alone[(ALONE - 1) // 2]) / 2
    return GpuTurn(device_s=mean, alone_s=middle, sm_mhz=clock)


def _alone(device: Device, run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    device.synchronize()
    return max(time.perf_counter() - start, 1e-9)
