"""How a loaded network is run: on a CPU by calls, on a GPU by a stream that work is enqueued on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from relay_int8.errors import ConfigError
from relay_int8.runtime.cuda_graphs import CapturedGraphs, regions_run_by
from relay_int8.runtime.cuda_runtime import CudaRuntime
from relay_int8.runtime.memory import GpuMemory, HostMemory
from relay_int8.runtime.noted_calls import NotedCalls, noted_calls
from relay_int8.runtime.thread_team import MAKE_CALLS, in_team
from relay_int8.runtime.tvm_runtime import RuntimeDevice, start

Array = np.ndarray[Any, Any]


def started(
    library: tvm_ffi.Module, device: RuntimeDevice, weights: Sequence[Array], *, is_fixed: bool
) -> HostExecution | GpuExecution:
    """Return a library that was loaded for a device ready to run there with its weights.

    ``is_fixed`` says that its inputs have one shape only.
    """
    if device.kind == "cpu":
        machine = start(library, device, weights=weights)
        return HostExecution(library, machine, device, is_fixed=is_fixed)
    runtime = CudaRuntime(device.number)
    graphs = regions_run_by(CapturedGraphs(runtime).run)
    return GpuExecution(start(library, device, graphs, weights), device, runtime)


@contextmanager
def on_stream(path: Path, device: RuntimeDevice, stream: Any) -> Iterator[None]:
    """Have TVM enqueue on a stream in this context; on that it would take anyway without one.

    Raises
    ------
    ConfigError
        If a stream is given and the artifact at ``path`` runs on the CPU, or it is no stream.
    """
    if stream is None:
        yield
        return
    if device.kind == "cpu":
        raise ConfigError(f"{path}: runs on the CPU, which has no streams; leave stream out")
    with tvm_ffi.use_raw_stream(device.handle, _handle(stream)):
        yield


def _handle(stream: Any) -> int:
    """Return the handle of a stream of CUDA."""
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])  # version, handle
    handle = getattr(stream, "cuda_stream", stream)
    if isinstance(handle, bool) or not isinstance(handle, int):
        raise ConfigError(
            f"stream is a {type(stream).__name__}; give a handle as a number, or an object with "
            "__cuda_stream__ or cuda_stream"
        )
    return handle


class HostExecution:
    """A network on this computer's processor; ``main`` runs it."""

    def __init__(
        self, library: tvm_ffi.Module, machine: Any, device: RuntimeDevice, *, is_fixed: bool
    ) -> None:
        self.machine, self.main = machine, in_team(library, machine["main"])
        self._library, self._device, self._memory = library, device, HostMemory(device)
        self._noted: NotedCalls | None = None
        self._can_be_noted = is_fixed and library.implements_function(
            MAKE_CALLS, query_imports=True
        )
        self._is_to_be_noted = self._can_be_noted

    def arguments(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Return inputs, in the order of ``main``, as it takes them."""
        return [self._memory.argument(name, value) for name, value in inputs.items()]

    def call(self, arguments: list[Any]) -> list[Any]:
        """Run; return the outputs, which the next call may overwrite."""
        if self._is_to_be_noted:
            self._is_to_be_noted = False
            self._noted = self.noted(arguments)
        if self._noted is None:
            return self.enqueue(arguments)
        return self._noted.run(arguments)

    def noted(self, arguments: list[Any], around: Any = None) -> NotedCalls | None:
        """Run and return the calls, to be made again; None if another run may make others."""
        if not self._can_be_noted:
            return None
        return noted_calls(self._library, self.machine, self._device, arguments, around)

    def enqueue(self, arguments: list[Any]) -> list[Any]:
        """Run; return the outputs, in memory of their own."""
        return _outputs(self.main(*arguments), arguments, self._device, self.wait)

    def fetch(self, tensors: Mapping[str, Any]) -> dict[str, Array]:
        """Return copies: the memory goes back to the machine's pool with the tensors."""
        return {name: self._device.get(tensor) for name, tensor in tensors.items()}

    def wait(self) -> None:
        """Return at once: a CPU is never behind."""


class GpuExecution:
    """A network on a GPU; work goes to the stream that TVM has at that time."""

    def __init__(self, machine: Any, device: RuntimeDevice, runtime: CudaRuntime) -> None:
        self.machine, self.main = machine, machine["main"]
        self._device, self._runtime = device, runtime
        self._memory = GpuMemory(device, runtime)
        self._held: list[Any] = []  # tensors of others that the last run reads

    def arguments(self, inputs: Mapping[str, Any]) -> list[Any]:
        """Return inputs, in the order of ``main``, in the GPU's memory."""
        stream = self._stream
        self._memory.begin(stream)
        arguments = [self._memory.argument(name, value, stream) for name, value in inputs.items()]
        self._memory.copied(stream)
        return arguments

    def call(self, arguments: list[Any]) -> list[Any]:
        """Enqueue a run; return its outputs, as :meth:`enqueue` does."""
        return self.enqueue(arguments)

    def enqueue(self, arguments: list[Any]) -> list[Any]:
        """Enqueue a run; return its outputs, in memory of their own."""
        self._held = arguments
        result = self.main(*arguments)
        outputs = _outputs(result, arguments, self._device, self.wait)
        self._memory.done(self._stream)
        return outputs

    def fetch(self, tensors: Mapping[str, Any]) -> dict[str, Array]:
        """Return copies of tensors when they are written."""
        return self._memory.fetch(dict(tensors), self._stream)

    def wait(self) -> None:
        """Return when all on the stream is done."""
        self._runtime.use()
        self._runtime.synchronize(self._stream)

    @property
    def _stream(self) -> int:
        return int(tvm_ffi.get_raw_stream(self._device.handle))


def _outputs(
    result: Any, arguments: list[Any], device: RuntimeDevice, wait: Callable[[], None]
) -> list[Any]:
    """Return what ``main`` gave as a list; an output that is an input becomes a copy of it."""
    tensors = [result] if isinstance(result, tvm_ffi.Tensor) else list(result)
    inputs = {argument.data_ptr() for argument in arguments}
    if any(tensor.data_ptr() in inputs for tensor in tensors):
        wait()
        tensors = [device.put(device.get(tensor)) for tensor in tensors]
    return tensors
