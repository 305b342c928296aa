"""A compiled network that runs: checks what it is given, calls the TVM runtime.

Needs the TVM runtime alone, see :mod:`relay_int8.runtime.tvm_runtime`.
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from relay_int8.errors import ArtifactError, ConfigError
from relay_int8.machine.gpu import misfit_here
from relay_int8.machine.host import lacking
from relay_int8.runtime.device_memory import exhaustion, exhaustion_explained
from relay_int8.runtime.execution import GpuExecution, HostExecution, on_stream, started
from relay_int8.runtime.inputs import Inputs, checked_inputs
from relay_int8.runtime.noted_calls import NotedCalls
from relay_int8.runtime.profiling import kernel_times
from relay_int8.runtime.tvm_runtime import (
    RuntimeDevice,
    load_library,
    require_own_pool,
    require_threads,
    set_threads,
    threads,
)

if TYPE_CHECKING:
    from relay_int8.runtime.manifest import Manifest

Array = np.ndarray[Any, Any]


class Module:
    """One network of an artifact, loaded; made by :func:`relay_int8.load`.

    Memory of inputs and outputs is allocated once. Runs of several threads wait for each other.
    """

    def __init__(
        self,
        *,
        path: Path,
        manifest: Manifest,
        library: Path,
        weights: Sequence[Array] = (),
        threads: int | None = None,
        gpu: int = 0,
    ) -> None:
        self.path = path
        self.manifest = manifest
        reason = refusal(manifest, gpu)
        if reason:
            raise ArtifactError(f"{path}: {reason}")
        require_own_pool()
        self.device = RuntimeDevice("cuda", gpu) if manifest.gpu else RuntimeDevice()
        self._turn = threading.Lock()
        self._weights = weights
        if threads is not None:
            require_threads(threads)
        with self._explained():
            self._library = load_library(library, self.device)
            self._execution = self._started()
        if threads is not None:
            set_threads(threads)

    def __repr__(self) -> str:
        """Return what it is made from, takes and gives."""
        takes, gives = (
            ", ".join(map(str, infos)) for infos in (self.manifest.inputs, self.manifest.outputs)
        )
        return f"<Module {self.path.name}: {takes} -> {gives}; {self.manifest.machine}>"

    def __reduce__(self) -> str:
        """Refuse to be copied or sent to another process."""
        raise ArtifactError(
            f"{self.path}: a loaded network is neither copied nor pickled; load the artifact "
            "again, in the other process too"
        )

    def twin(self) -> Module:
        """Return the network once more, to run at the same time; on a CPU they share constants."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._turn = threading.Lock()
        with self._explained():
            twin._execution = self._started()
        return twin

    @property
    def machine(self) -> tvm_ffi.Module:
        """TVM's virtual machine, which runs one call at a time."""
        machine: tvm_ffi.Module = self._execution.machine
        return machine

    @property
    def main(self) -> Callable[..., Any]:
        """What runs the network on its arguments."""
        main: Callable[..., Any] = self._execution.main
        return main

    def noted(self, arguments: list[Any], around: Any = None) -> NotedCalls | None:
        """Return the calls of a run on a CPU, see ``noted_calls``; None if others may differ."""
        assert isinstance(self._execution, HostExecution)
        return self._execution.noted(arguments, around)

    @property
    def threads(self) -> int:
        """How many threads the runtime's pool has."""
        return threads()

    @property
    def has_graph(self) -> bool:
        """Whether a CUDA graph launches kernels together."""
        return bool(self.manifest.gpu_code.get("graph", {}).get("captured"))

    def run(self, inputs: Inputs, *, stream: Any = None) -> dict[str, Array]:
        """Return the outputs by name.

        Parameters
        ----------
        inputs
            Every input by name, or one array where the network has one input. Shapes and types
            are the manifest's; nothing is converted. Tensors of other libraries that speak DLPack
            are read where they lie, if they lie on the artifact's device; so are NumPy's arrays on
            a CPU, if they are contiguous and aligned to 64 bytes.
        stream
            For a GPU, the stream of CUDA that everything is enqueued on: its handle as a number,
            or an object with ``__cuda_stream__`` or ``cuda_stream``, as PyTorch's have. Without it:
            the default stream, or that of ``tvm_ffi.use_raw_stream``.

        Raises
        ------
        ArtifactError
            If a name, a shape or a type is not the manifest's, an integer no valid index, or a
            tensor lies on another device; or if the GPU has no memory left.
        ConfigError
            If a stream is given and the artifact runs on the CPU, or it is no stream; in a fork of
            the process that loaded it, for several threads.
        """
        with self._running(stream):
            return self._execution.fetch(self._named(self._execution.call(self.arguments(inputs))))

    def enqueue(self, inputs: Inputs, *, stream: Any = None) -> dict[str, Any]:
        """Begin a run and return its outputs by name, as tensors of the device that speak DLPack.

        On a GPU this returns before the run is done. What reads the outputs has to be enqueued on
        the same stream, or to follow :meth:`wait`. They may be kept: a later run writes into
        memory of its own. Until the stream has passed them, keep them and the inputs that lie on
        the GPU. On a CPU everything is done when this returns.

        Integers of a GPU's tensor are not checked to be valid indices; kernels clamp them.

        Parameters
        ----------
        inputs, stream
            As those of :meth:`run`; errors, too.
        """
        with self._running(stream):
            return self._named(self._execution.enqueue(self.arguments(inputs)))

    def wait(self, stream: Any = None) -> None:
        """Return when all that was enqueued on the stream is done; a CPU is never behind."""
        with self._running(stream):
            self._execution.wait()

    def time(
        self, inputs: Inputs, repeats: int = 10, *, warmup: int = 3, stream: Any = None
    ) -> list[float]:
        """Return how many milliseconds each of ``repeats`` runs took, after ``warmup`` others."""
        with self._running(stream):
            arguments = self.arguments(inputs)
            for _ in range(warmup):
                self._execution.call(arguments)
            self._execution.wait()
            times_ms = []
            for _ in range(repeats):
                start = time.perf_counter()
                self._execution.call(arguments)
                self._execution.wait()
                times_ms.append((time.perf_counter() - start) * 1e3)
            return times_ms

    def profile(self, inputs: Inputs, repeats: int = 10) -> list[tuple[str, float]]:
        """Return each kernel in the order of execution, with the median of its microseconds.

        Raises
        ------
        ConfigError
            If a CUDA graph launches kernels together: they have no times of their own.
        """
        if self.has_graph:
            raise ConfigError(
                f"{self.path}: its kernels are launched together, as a CUDA graph; build it with "
                "BuildOptions(cuda_graphs=False) to time them one by one"
            )
        with self._running(None):
            arguments = self.arguments(inputs)
            return kernel_times(self.machine, arguments, repeats, self._execution.wait)

    def arguments(self, inputs: Inputs) -> list[Any]:
        """Return the arguments of the machine's ``main``; a later call writes into their memory.

        Raises
        ------
        ArtifactError
            As :meth:`run` does.
        """
        values = checked_inputs(self.path, self.manifest, inputs, self.device)
        return self._execution.arguments({i.name: values[i.name] for i in self.manifest.inputs})

    @contextmanager
    def _running(self, stream: Any) -> Iterator[None]:
        """Have the network to oneself, on a stream."""
        require_own_pool()
        with self._turn:
            try:
                if stream is None:  # a context less: of a network of few layers half is overhead
                    yield
                    return
                with on_stream(self.path, self.device, stream):
                    yield
            except RuntimeError as error:
                explained = exhaustion(error, self.path, self.manifest.gpu, self.device.number)
                if explained is None:
                    raise
                raise explained from error

    def _explained(self) -> AbstractContextManager[None]:
        return exhaustion_explained(self.path, self.manifest.gpu, self.device.number)

    def _started(self) -> HostExecution | GpuExecution:
        is_fixed = all(size >= 0 for info in self.manifest.inputs for size in info.shape)
        return started(self._library, self.device, self._weights, is_fixed=is_fixed)

    def _named(self, tensors: list[Any]) -> dict[str, Any]:
        names = (info.name for info in self.manifest.outputs)
        return dict(zip(names, tensors, strict=True))


def refusal(manifest: Manifest, gpu: int = 0) -> str | None:
    """Say why this computer, and its GPU of that number, cannot run an artifact, or None."""
    return _wrong_tvm(manifest) or _wrong_computer(manifest) or misfit_here(manifest.gpu, gpu)


def _wrong_tvm(manifest: Manifest) -> str | None:
    """Say why the installed TVM cannot run the library, or None."""
    wanted = {"apache-tvm": manifest.tvm_version, "apache-tvm-ffi": manifest.tvm_ffi_version}
    for package, recorded in wanted.items():
        try:
            running = version(package)
        except PackageNotFoundError:
            running = "none"
        if running != recorded:
            return (
                f"built with {package} {recorded}, running {running}; "
                f"pip install {package}=={recorded}, or build the artifact again"
            )
    return None


def _wrong_computer(manifest: Manifest) -> str | None:
    """Say why this computer cannot run the library, or None."""
    if manifest.machine != platform.machine():
        return (
            f"built for {manifest.machine}, this computer is {platform.machine()}; "
            "build it again for this computer"
        )
    missing = lacking(manifest.cpu_flags)
    if missing:
        return (
            f"built for a CPU with {missing}, which this one lacks; "
            "build it again on this computer, for target native"
        )
    return None
