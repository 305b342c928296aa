"""What a GPU can do at most: by its data sheet, and measured in the same run.

Measured are dp4a and the matrix instruction ``mma.sync`` alone (``peak_kernels.cu``), a copy within
the GPU's memory, and the time that a kernel takes that does nothing. Shares of peak in the tables
are of what was measured. Hopper's data sheet counts warp-group instructions (wgmma), which
``mma.sync`` does not reach.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from relay_int8.machine.cuda_driver import Driver, GpuFacts
from schedules.cuda.device.gpus import gpu_of

SOURCE = Path(__file__).with_name("peak_kernels.cu")
THREADS, WARP = 1024, 32
CHAINS = {"dp4a_peak": 16, "mma_peak": 8}  # instructions a round, as peak_kernels.cu has them
MACS = {"dp4a_peak": 4 * THREADS, "mma_peak": 16 * 8 * 32 * THREADS // WARP}  # of a block's one
FIRST_MMA = "sm_80"  # with m16n8k32
ROUNDS = 20_000  # some 10 ms
COPY_BYTES = 1 << 30  # or a sixteenth of the memory
REPEATS = 5
LAUNCHES = 100
MHZ = 1e6


@dataclass(frozen=True, kw_only=True)
class Peaks:
    """Rates of a whole GPU; None where it has no such unit, or there is no number.

    ``dp4a_macs_s`` and ``mma_macs_s`` count products of bytes, ``copy_bytes_s`` bytes read and
    written, ``launch_s`` is what a kernel in a graph takes at least, ``sm_mhz`` the clock that the
    dp4a loop ran at, by its own count of cycles.
    """

    dp4a_macs_s: float | None = None
    mma_macs_s: float | None = None
    copy_bytes_s: float | None = None
    launch_s: float | None = None
    sm_mhz: float | None = None

    def macs_s(self, unit: str) -> float | None:
        """Return the rate of ``unit``: "dp4a" or "mma"."""
        return {"dp4a": self.dp4a_macs_s, "mma": self.mma_macs_s}.get(unit)


def data_sheet(facts: GpuFacts) -> Peaks:
    """Return the rates at the highest clock."""
    clocks_s = facts.clock_mhz * MHZ * facts.multiprocessors
    gpu = gpu_of(facts.architecture)
    # Two transfers a clock, as DDR memories of all kinds have.
    bytes_s = 2 * facts.memory_clock_mhz * MHZ * facts.memory_bus_bits / 8
    return Peaks(
        dp4a_macs_s=4 * gpu.dp4a * clocks_s,
        mma_macs_s=gpu.mma_peak * clocks_s or None,
        copy_bytes_s=bytes_s or None,
        sm_mhz=facts.clock_mhz,
    )


def measure(driver: Driver, facts: GpuFacts, image: bytes) -> Peaks:
    """Measure, with kernels from ``image``, a fat binary of ``peak_kernels.cu``; takes a second."""
    dp4a, mhz = _rate(driver, facts, image, "dp4a_peak")
    has_mma = int(facts.architecture.removeprefix("sm_")) >= int(FIRST_MMA.removeprefix("sm_"))
    mma = _rate(driver, facts, image, "mma_peak")[0] if has_mma else None
    return Peaks(
        dp4a_macs_s=dp4a,
        mma_macs_s=mma,
        copy_bytes_s=_copy(driver, min(COPY_BYTES, facts.memory_bytes // 16)),
        launch_s=_launch(driver, image),
        sm_mhz=mhz,
    )


def _rate(driver: Driver, facts: GpuFacts, image: bytes, name: str) -> tuple[float, float]:
    """Return products a second, the best of some runs, and the clock in MHz of that run."""
    kernel, blocks = driver.kernel(image, name), facts.multiprocessors
    found: list[tuple[float, float]] = []
    with driver.memory(4 * THREADS * blocks) as sums, driver.memory(8 * blocks) as cycles:
        arguments = (sums, cycles, ctypes.c_int(ROUNDS))
        for _ in range(1 + REPEATS):  # the first wakes the clocks
            seconds = driver.seconds(lambda: driver.launch(kernel, blocks, THREADS, arguments), 1)
            ticks = np.frombuffer(driver.read(cycles, 8 * blocks), np.int64)
            found.append((seconds, float(np.median(ticks)) / seconds / MHZ))
    seconds, mhz = min(found[1:])
    return MACS[name] * CHAINS[name] * ROUNDS * blocks / seconds, mhz


def _launch(driver: Driver, image: bytes) -> float:
    """Return the seconds of one of many kernels in a graph, each waiting for the one before."""
    kernel = driver.kernel(image, "nothing")
    with driver.memory(4) as sums:

        def _enqueue() -> None:
            for _ in range(LAUNCHES):
                driver.launch(kernel, 1, WARP, (sums,), ctypes.c_void_p(driver.capture_stream))

        run = driver.capture(_enqueue)
        return min(driver.seconds(run, 10) / 10 / LAUNCHES for _ in range(REPEATS))


def _copy(driver: Driver, size_bytes: int) -> float:
    """Return bytes a second, read and written."""
    with driver.memory(size_bytes) as source, driver.memory(size_bytes) as to:
        seconds = [
            driver.seconds(lambda: driver.copy(to, source, size_bytes), 4) / 4
            for _ in range(1 + REPEATS)
        ]
    return 2 * size_bytes / min(seconds[1:])
