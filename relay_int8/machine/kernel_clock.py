"""Timing of one kernel on a GPU: replayed as a CUDA graph, between two events of the driver.

A kernel of a few microseconds is over before the host has launched the next, so launches one by one
would time the host. The tuner and ``scripts/bench_gpu`` use this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import tvm_ffi

LAUNCHES = 20  # of the kernel, in the graph
KERNEL_S = 0.005  # that one measurement takes, at least
SHORTEST_S = 1e-9  # stands for a time that the clock measures as zero


class GraphDevice(Protocol):
    """A driver that captures graphs and times them: a GPU's, or a stand-in of the tests."""

    @property
    def capture_stream(self) -> Any:
        """The handle of the stream that :meth:`capture` looks at."""

    def seconds(self, launch: Callable[[], object], runs: int) -> float:
        """Return the device's seconds for ``runs`` launches, one behind the other."""

    def capture(self, enqueue: Callable[[], object]) -> Callable[[], object]:
        """Return a function that does again what ``enqueue`` does, with one launch."""

    def synchronize(self) -> None:
        """Wait until everything is done."""


def captured(device: GraphDevice, kind: str, enqueue: Callable[[], object]) -> Callable[[], object]:
    """Return a function that replays what ``enqueue`` has TVM launch, as one graph."""
    gpu = tvm_ffi.device(kind, 0)

    def _on_stream() -> None:
        with tvm_ffi.use_raw_stream(gpu, device.capture_stream):
            enqueue()

    return device.capture(_on_stream)


def kernel_seconds(
    device: GraphDevice,
    kind: str,
    launch: Callable[[], object],
    *,
    repeats: int = 1,
    least_s: float = KERNEL_S,
) -> tuple[float, ...]:
    """Return ``repeats`` mean seconds of what ``launch`` has TVM enqueue, each over ``least_s``.

    Inputs and weights may lie in the L2 cache, where the launch before has left them.
    """

    def _launches() -> None:
        for _ in range(LAUNCHES):
            launch()

    _launches()  # what is compiled, loaded and allocated at first, is by then
    device.synchronize()
    run = captured(device, kind, _launches)
    once = max(device.seconds(run, 1), SHORTEST_S)
    runs = max(1, round(least_s / once))
    return tuple(device.seconds(run, runs) / runs / LAUNCHES for _ in range(repeats))


def flushed_seconds(
    device: GraphDevice,
    kind: str,
    launch: Callable[[], object],
    flush: Callable[[], object],
    *,
    repeats: int = 1,
) -> tuple[float, ...]:
    """Return the seconds of ``repeats`` single runs, with ``flush`` enqueued in front of each.

    While the GPU flushes, the host has time to enqueue the graph, so its own time is hidden.
    """
    launch()
    device.synchronize()
    run = captured(device, kind, launch)
    times = []
    for _ in range(repeats):
        flush()
        times.append(device.seconds(run, 1))
    return tuple(times)
