"""NVIDIA's driver by ctypes: what a GPU is, events that time it, graphs, kernels.

The driver's library is all that it needs, so one clock serves every system under test: events on
the default stream, which waits for all that TVM, PyTorch or TensorRT enqueue before.
Signatures are those of ``cuda.h`` of CUDA 13.0; every function is in drivers since CUDA 11.4.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

LIBRARY = "libcuda.so.1"
Handle = ctypes.c_void_p
_NON_BLOCKING, _RELAXED = 1, 2  # CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED
_NAME_BYTES = 256
_ATTRIBUTES = {
    "clock_khz": 13,
    "multiprocessors": 16,
    "memory_clock_khz": 36,
    "memory_bus_bits": 37,
    "l2_bytes": 38,
    "major": 75,
    "minor": 76,
}
"""CU_DEVICE_ATTRIBUTE_*."""


class DriverError(RuntimeError):
    """The driver refused; the message says what, and in its own words why."""


@dataclass(frozen=True, kw_only=True)
class GpuFacts:
    """What a GPU is, as its driver says; clocks are the highest it may run at."""

    name: str
    architecture: str
    cuda: str
    multiprocessors: int
    clock_mhz: float
    memory_clock_mhz: float
    memory_bus_bits: int
    l2_bytes: int
    memory_bytes: int


class Driver:
    """One GPU and its primary context, which all libraries of a process share.

    Work goes to the default stream; ``capture_stream`` is there for what becomes a graph.

    Raises
    ------
    DriverError
        If there is no driver, or no such GPU.
    """

    def __init__(self, number: int = 0, library: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise DriverError(f"no NVIDIA driver here: {error}") from error
        self.call("cuInit", ctypes.c_uint(0))
        device, context = ctypes.c_int(), Handle()
        self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(number))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self._device = device
        self._capture_stream = self._made("cuStreamCreate", ctypes.c_uint(_NON_BLOCKING))
        self._events = [self._made("cuEventCreate", ctypes.c_uint(0)) for _ in range(2)]

    @property
    def capture_stream(self) -> int:
        """The handle of the stream that :meth:`capture` looks at, as a number."""
        return int(self._capture_stream.value or 0)

    def facts(self) -> GpuFacts:
        """Return what the GPU is."""
        name, version = ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_int()
        memory = ctypes.c_size_t()
        self.call("cuDeviceGetName", name, ctypes.c_int(_NAME_BYTES), self._device)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.call("cuDeviceTotalMem_v2", ctypes.byref(memory), self._device)
        attributes = {key: self._attribute(number) for key, number in _ATTRIBUTES.items()}
        return GpuFacts(
            name=name.value.decode(errors="replace"),
            architecture=f"sm_{attributes['major']}{attributes['minor']}",
            cuda=f"{version.value // 1000}.{version.value % 1000 // 10}",
            multiprocessors=attributes["multiprocessors"],
            clock_mhz=attributes["clock_khz"] / 1e3,
            memory_clock_mhz=attributes["memory_clock_khz"] / 1e3,
            memory_bus_bits=attributes["memory_bus_bits"],
            l2_bytes=attributes["l2_bytes"],
            memory_bytes=memory.value,
        )

    def synchronize(self) -> None:
        """Wait until the GPU has done everything."""
        self.call("cuCtxSynchronize")

    def seconds(self, launch: Callable[[], object], runs: int) -> float:
        """Return the seconds between the events before and after ``runs`` launches.

        The launches are enqueued back to back: what the processor takes for one is hidden while
        the GPU takes longer.
        """
        start, end = self._events
        self.call("cuEventRecord", start, None)
        for _ in range(runs):
            launch()
        self.call("cuEventRecord", end, None)
        self.call("cuEventSynchronize", end)
        milliseconds = ctypes.c_float()
        self.call("cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return milliseconds.value / 1e3

    def capture(self, enqueue: Callable[[], object]) -> Callable[[], None]:
        """Return a function that replays what ``enqueue`` puts on the capture stream."""
        graph, executable = Handle(), Handle()
        self.call("cuStreamBeginCapture_v2", self._capture_stream, ctypes.c_int(_RELAXED))
        try:
            enqueue()
        finally:
            self.call("cuStreamEndCapture", self._capture_stream, ctypes.byref(graph))
        flags = ctypes.c_ulonglong(0)
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, flags)
        self.call("cuGraphDestroy", graph)
        return lambda: self.call("cuGraphLaunch", executable, None)

    @contextmanager
    def memory(self, size_bytes: int) -> Iterator[ctypes.c_uint64]:
        """Give the address of memory on the GPU, all zero, until the block ends."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size_bytes))
        try:
            self.call("cuMemsetD8_v2", address, ctypes.c_ubyte(0), ctypes.c_size_t(size_bytes))
            yield address
        finally:
            self.synchronize()
            self.call("cuMemFree_v2", address)

    def fill(self, address: ctypes.c_uint64, size_bytes: int) -> None:
        """Enqueue that zeros are written to the GPU's memory; what its cache held is then gone."""
        size = ctypes.c_size_t(size_bytes)
        self.call("cuMemsetD8Async", address, ctypes.c_ubyte(0), size, None)

    def copy(self, to: ctypes.c_uint64, source: ctypes.c_uint64, size_bytes: int) -> None:
        """Enqueue a copy within the GPU's memory."""
        self.call("cuMemcpyDtoDAsync_v2", to, source, ctypes.c_size_t(size_bytes), None)

    def read(self, source: ctypes.c_uint64, size_bytes: int) -> bytes:
        """Return what lies in the GPU's memory, once everything is done."""
        self.synchronize()
        content = ctypes.create_string_buffer(size_bytes)
        self.call("cuMemcpyDtoH_v2", content, source, ctypes.c_size_t(size_bytes))
        return content.raw

    def kernel(self, image: bytes, name: str) -> Handle:
        """Return a kernel of a cubin or fat binary."""
        module, function = Handle(), Handle()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(image))
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def write(self, to: ctypes.c_uint64, content: bytes) -> None:
        """Copy from the host's memory to the GPU's."""
        self.call("cuMemcpyHtoD_v2", to, ctypes.c_char_p(content), ctypes.c_size_t(len(content)))

    def launch(
        self,
        kernel: Handle,
        grid: int,
        block: int,
        arguments: Sequence[object],
        stream: Handle | None = None,
    ) -> None:
        """Enqueue a kernel whose ``arguments`` are values of ctypes."""
        pointers = (Handle * len(arguments))(
            *(ctypes.addressof(value) for value in arguments)  # type: ignore[arg-type]
        )
        sizes = (ctypes.c_uint(size) for size in (grid, 1, 1, block, 1, 1, 0))
        self.call("cuLaunchKernel", kernel, *sizes, stream, pointers, None)

    def call(self, function: str, *arguments: object) -> None:
        """Call a function of the driver.

        Raises
        ------
        DriverError
            If it fails, or the driver has no such function.
        """
        try:
            error = self._library[function](*arguments)
        except AttributeError as missing:
            raise DriverError(f"the driver has no {function}; install a newer one") from missing
        if error:
            text = ctypes.c_char_p()
            self._library["cuGetErrorString"](ctypes.c_int(error), ctypes.byref(text))
            reason = text.value.decode() if text.value else "unknown"
            raise DriverError(f"{function} failed with CUDA error {error}: {reason}")

    def _made(self, function: str, *arguments: object) -> Handle:
        handle = Handle()
        self.call(function, ctypes.byref(handle), *arguments)
        return handle

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(number), self._device)
        return value.value
