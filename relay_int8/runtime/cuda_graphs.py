"""CUDA graphs of one network: captured when a region first runs, replayed from then on.

TVM 0.27 captures in CUDA's global mode on a stream that waits for the default one: a ``cudaMalloc``
of any other thread, or its work on the default stream, then fails and breaks the capture. Here
captures forbid nothing to other threads. The function takes the place of TVM's own in one virtual
machine, while that looks up its functions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tvm_ffi

from relay_int8.runtime.cuda_runtime import CudaRuntime, Graph

RUN_OR_CAPTURE = "vm.builtin.cuda_graph.run_or_capture"
_LOOKING_UP = threading.Lock()
RunRegion = Callable[..., Any]


@dataclass(frozen=True)
class _Captured:
    graph: Graph
    results: Any  # tensors that the network reads behind the region


class CapturedGraphs:
    """The graphs of one network on one GPU, one for each region and batch."""

    def __init__(self, runtime: CudaRuntime) -> None:
        self._runtime = runtime
        self._captured: dict[tuple[Any, ...], _Captured] = {}

    def run(
        self, machine: Any, region: Any, arguments: Sequence[Any], index: int, *sizes: Any
    ) -> Any:
        """Replay a region, or run and capture it at its first time; return its results.

        Parameters
        ----------
        machine
            Address of the virtual machine.
        region, arguments
            A function of the network, and what it is always given.
        index
            Of the region in the network.
        sizes
            What its open extents are in this run, if it has any.
        """
        key = (index, *(tuple(each) for each in sizes))
        if key not in self._captured:
            # The first run loads the kernels, which cannot be captured; it gives the results.
            run_region(machine, region, arguments, index, *sizes)
            self._captured[key] = self._capture(lambda: run_region(machine, region, arguments))
        else:
            self._captured[key].graph.launch(tvm_ffi.get_raw_stream(self._device))
        return self._captured[key].results

    @property
    def _device(self) -> Any:
        return tvm_ffi.device("cuda", self._runtime.number)

    def _capture(self, enqueue: Callable[[], Any]) -> _Captured:
        stream = self._runtime.stream()
        try:
            self._runtime.begin_capture(stream)
            try:
                with tvm_ffi.use_raw_stream(self._device, stream):
                    results = enqueue()
            finally:
                graph = self._runtime.end_capture(stream)
            return _Captured(self._runtime.executable(graph), results)
        finally:
            self._runtime.destroy_stream(stream)


def run_region(
    machine: Any, region: Any, arguments: Sequence[Any], _index: int = 0, *_sizes: Any
) -> Any:
    """Run a region without a graph, kernel by kernel."""
    invoke = tvm_ffi.get_global_func("vm.builtin.invoke_closure")
    return invoke(machine, region, *arguments)


@contextmanager
def regions_run_by(run: RunRegion) -> Iterator[None]:
    """Have virtual machines that are initialized in this context run regions by ``run``."""
    with _LOOKING_UP:
        of_tvm = tvm_ffi.get_global_func(RUN_OR_CAPTURE)
        tvm_ffi.register_global_func(RUN_OR_CAPTURE, run, override=True)
        try:
            yield
        finally:
            tvm_ffi.register_global_func(RUN_OR_CAPTURE, of_tvm, override=True)
