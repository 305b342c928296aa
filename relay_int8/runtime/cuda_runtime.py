"""The functions of NVIDIA's CUDA runtime that run a network: copies, streams, events, graphs."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

from schedules.cuda.device.cudart import CUDART, load_cudart

HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE = 1, 2, 3
_NON_BLOCKING = 1  # a stream that does not wait for the default stream, nor that for it
_THREAD_LOCAL = 1  # a capture that forbids nothing to other threads


class CudaRuntime:
    """The library that TVM's runtime for GPUs has loaded, and one GPU.

    Every method raises RuntimeError with CUDA's own words where a call fails.
    """

    def __init__(self, number: int) -> None:
        load_cudart()  # from where a package has it; by its name it is found from then on
        self._library = ctypes.CDLL(CUDART)
        self._library.cudaGetErrorString.restype = ctypes.c_char_p
        self.number = number

    def use(self) -> None:
        """Make the GPU the one of this thread."""
        self.call("cudaSetDevice", self.number)

    def copy(self, to: int, source: int, size_bytes: int, kind: int, stream: int) -> None:
        """Enqueue a copy between addresses; host memory must be pinned, or the host waits."""
        self.call(
            "cudaMemcpyAsync",
            ctypes.c_void_p(to),
            ctypes.c_void_p(source),
            ctypes.c_size_t(size_bytes),
            kind,
            ctypes.c_void_p(stream),
        )

    def stream(self) -> int:
        """Return the handle of a new stream of the GPU, for :meth:`destroy_stream`."""
        self.use()
        handle = ctypes.c_void_p()
        self.call("cudaStreamCreateWithFlags", ctypes.byref(handle), _NON_BLOCKING)
        return handle.value or 0

    def destroy_stream(self, stream: int) -> None:
        """Destroy a stream of :meth:`stream`, when what is on it is done."""
        self.call("cudaStreamDestroy", ctypes.c_void_p(stream))

    def synchronize(self, stream: int) -> None:
        """Return when all that was enqueued on a stream is done."""
        self.call("cudaStreamSynchronize", ctypes.c_void_p(stream))

    def begin_capture(self, stream: int) -> None:
        """Begin to note what this thread enqueues on a stream."""
        self.call("cudaStreamBeginCapture", ctypes.c_void_p(stream), _THREAD_LOCAL)

    def end_capture(self, stream: int) -> int:
        """Return the handle of a graph of what was noted."""
        graph = ctypes.c_void_p()
        self.call("cudaStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
        return graph.value or 0

    def executable(self, graph: int) -> Graph:
        """Return a graph ready to launch; the handle is gone afterwards."""
        handle = ctypes.c_void_p()
        try:
            self.call(
                "cudaGraphInstantiate",
                ctypes.byref(handle),
                ctypes.c_void_p(graph),
                ctypes.c_ulonglong(0),
            )
        finally:
            self._library.cudaGraphDestroy(ctypes.c_void_p(graph))
        return Graph(self, handle)

    def event(self) -> Event:
        """Return a new event, which counts as reached until it is recorded."""
        handle = ctypes.c_void_p()
        self.call("cudaEventCreate", ctypes.byref(handle))
        return Event(self, handle)

    def finalize(self, owner: object, name: str, handle: ctypes.c_void_p) -> None:
        """Call the function ``name`` with ``handle`` when ``owner`` is gone; not at exit."""
        weakref.finalize(owner, getattr(self._library, name), handle).atexit = False

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the library; RuntimeError if it fails."""
        code = getattr(self._library, name)(*arguments)
        if code:
            text = self._library.cudaGetErrorString(code) or b""
            raise RuntimeError(f"{name}: {text.decode()} (CUDA error {code})")


class Graph:
    """A CUDA graph that is ready to launch."""

    def __init__(self, runtime: CudaRuntime, handle: ctypes.c_void_p) -> None:
        self._runtime, self._handle = runtime, handle
        runtime.finalize(self, "cudaGraphExecDestroy", handle)

    def launch(self, stream: int) -> None:
        """Enqueue all of it on a stream."""
        self._runtime.call("cudaGraphLaunch", self._handle, ctypes.c_void_p(stream))


class Event:
    """A place in a stream that others wait for."""

    def __init__(self, runtime: CudaRuntime, handle: ctypes.c_void_p) -> None:
        self._runtime, self._handle = runtime, handle
        runtime.finalize(self, "cudaEventDestroy", handle)

    def record(self, stream: int) -> None:
        """Put the event behind all that was enqueued on a stream."""
        self._runtime.call("cudaEventRecord", self._handle, ctypes.c_void_p(stream))

    def synchronize(self) -> None:
        """Return when the event is reached."""
        self._runtime.call("cudaEventSynchronize", self._handle)

    def hold(self, stream: int) -> None:
        """Have what is enqueued on a stream from now on wait for the event."""
        self._runtime.call("cudaStreamWaitEvent", ctypes.c_void_p(stream), self._handle, 0)
