"""Where networks run and what times them: a GPU, or this computer in its place.

Everything that the benchmark does happens on either; on the processor the clock is the host's and
a "graph" is the calls themselves, so that all but the GPU's own functions is tested without one.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol

from benchmarks.gpu.management import Management
from benchmarks.gpu.peaks import Peaks, data_sheet, measure
from relay_int8.machine.cuda_driver import Driver

Kind = Literal["cuda", "cpu"]


class Device(Protocol):
    """One device."""

    kind: Kind

    @property
    def capture_stream(self) -> int:
        """The handle of the stream that :meth:`capture` looks at; 0 on a processor."""

    def facts(self) -> Mapping[str, Any]:
        """Return what it is, as plain values."""

    def reading(self) -> Mapping[str, Any]:
        """Return clocks and power of this moment, as far as they are known."""

    def peaks(self, image: bytes) -> tuple[Peaks, Peaks]:
        """Return its peaks as measured with kernels of ``image``, and by its data sheet."""

    def seconds(self, launch: Callable[[], object], runs: int) -> float:
        """Return the device's seconds for ``runs`` launches, one behind the other."""

    def capture(self, enqueue: Callable[[], object]) -> Callable[[], object]:
        """Return a function that does again what ``enqueue`` does, with one launch."""

    def synchronize(self) -> None:
        """Wait until everything is done."""


class CudaDevice:
    """The first GPU that is visible."""

    kind: Kind = "cuda"

    def __init__(self) -> None:
        self.driver = Driver()
        self.seconds = self.driver.seconds
        self.capture = self.driver.capture
        self.synchronize = self.driver.synchronize
        try:
            self._management: Management | None = Management()
        except OSError:
            self._management = None

    @property
    def capture_stream(self) -> int:
        """The handle of the stream that :meth:`capture` looks at."""
        return self.driver.capture_stream

    def facts(self) -> Mapping[str, Any]:
        """Return what it is, as plain values."""
        known = dataclasses.asdict(self.driver.facts())
        return known | ({"driver": self._management.driver()} if self._management else {})

    def reading(self) -> Mapping[str, Any]:
        """Return clocks and power of this moment, as far as they are known."""
        return dataclasses.asdict(self._management.read()) if self._management else {}

    def peaks(self, image: bytes) -> tuple[Peaks, Peaks]:
        """Return its peaks as measured with kernels of ``image``, and by its data sheet."""
        facts = self.driver.facts()
        return measure(self.driver, facts, image), data_sheet(facts)


class HostDevice:
    """The processor of this computer."""

    kind: Kind = "cpu"
    capture_stream = 0

    def facts(self) -> Mapping[str, Any]:
        """Return what it is, as plain values."""
        from relay_int8.machine.host import cpu_name

        return {"name": cpu_name(), "architecture": "host"}

    def reading(self) -> Mapping[str, Any]:
        """Return nothing: its clocks are not read."""
        return {}

    def peaks(self, image: bytes) -> tuple[Peaks, Peaks]:
        """Return no peaks: there is neither dp4a nor a matrix unit."""
        return Peaks(), Peaks()

    def seconds(self, launch: Callable[[], object], runs: int) -> float:
        """Return the seconds of ``runs`` calls."""
        start = time.perf_counter()
        for _ in range(runs):
            launch()
        return time.perf_counter() - start

    def capture(self, enqueue: Callable[[], object]) -> Callable[[], object]:
        """Return ``enqueue`` itself."""
        return enqueue

    def synchronize(self) -> None:
        """Return at once: calls are done when they return."""


def open_device(kind: Kind) -> Device:
    """Return the device of this process.

    Raises
    ------
    DriverError
        If there is no GPU.
    """
    return CudaDevice() if kind == "cuda" else HostDevice()
