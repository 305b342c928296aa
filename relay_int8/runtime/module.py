"""A compiled network that runs: checks what it is given, calls the TVM runtime.

Needs the TVM runtime alone, see :mod:`relay_int8.runtime.tvm_runtime`.
"""

from __future__ import annotations

import copy
import platform
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from relay_int8.errors import ArtifactError, ConfigError
from relay_int8.machine.gpu import misfit_here
from relay_int8.machine.host import lacking
from relay_int8.runtime.device_memory import exhaustion_explained
from relay_int8.runtime.profiling import kernel_times
from relay_int8.runtime.tvm_runtime import (
    RuntimeDevice,
    load_library,
    set_threads,
    start,
    threads,
)

if TYPE_CHECKING:
    from relay_int8.data.tensor_info import TensorInfo
    from relay_int8.runtime.manifest import Manifest

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Array] | Array


class Module:
    """One network of an artifact, loaded; made by :func:`relay_int8.load`.

    ``machine`` is its virtual machine, which runs one call at a time.
    """

    def __init__(
        self,
        *,
        path: Path,
        manifest: Manifest,
        library: Path,
        threads: int | None = None,
        gpu: int = 0,
    ) -> None:
        self.path = path
        self.manifest = manifest
        reason = refusal(manifest, gpu)
        if reason:
            raise ArtifactError(f"{path}: {reason}")
        self.device = RuntimeDevice("cuda", gpu) if manifest.gpu else RuntimeDevice()
        with self._explained():
            self._library = load_library(library, self.device)
            self.machine = start(self._library, self.device)
        if threads is not None:
            set_threads(threads)

    def __repr__(self) -> str:
        """Return what it is made from, takes and gives."""
        takes, gives = (
            ", ".join(map(str, infos)) for infos in (self.manifest.inputs, self.manifest.outputs)
        )
        return f"<Module {self.path.name}: {takes} -> {gives}; {self.manifest.machine}>"

    def twin(self) -> Module:
        """Return the network once more, to run at the same time; on a CPU they share constants."""
        twin = copy.copy(self)
        with self._explained():
            twin.machine = start(self._library, self.device)
        return twin

    @property
    def threads(self) -> int:
        """How many threads the runtime's pool has."""
        return threads()

    @property
    def has_graph(self) -> bool:
        """Whether a CUDA graph launches kernels together."""
        return bool(self.manifest.gpu_code.get("graph", {}).get("captured"))

    def run(self, inputs: Inputs) -> dict[str, Array]:
        """Return the outputs by name.

        Parameters
        ----------
        inputs
            Every input by name, or one array where the network has one input. Shapes and types
            are the manifest's; nothing is converted.

        Raises
        ------
        ArtifactError
            If a name, a shape or a type is not the manifest's, or an integer no valid index; or if
            the GPU has no memory left.
        """
        with self._explained():
            return self._collect(self.machine["main"](*self.arguments(inputs)))

    def time(self, inputs: Inputs, repeats: int = 10, *, warmup: int = 3) -> list[float]:
        """Return how many milliseconds each of ``repeats`` runs took, after ``warmup`` others."""
        with self._explained():
            arguments, main = self.arguments(inputs), self.machine["main"]
            for _ in range(warmup):
                main(*arguments)
            self.device.wait()
        times_ms = []
        for _ in range(repeats):
            start = time.perf_counter()
            main(*arguments)
            self.device.wait()
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
                "--no-cuda-graphs to time them one by one"
            )
        return kernel_times(self.machine, self.arguments(inputs), repeats, self.device.wait)

    def _explained(self) -> AbstractContextManager[None]:
        return exhaustion_explained(self.path, self.manifest.gpu, self.device.number)

    def arguments(self, inputs: Inputs) -> list[Any]:
        """Return the arguments of ``main``: copies on the device.

        Raises
        ------
        ArtifactError
            As :meth:`run` does.
        """
        arrays = checked_inputs(self.path, self.manifest, inputs)
        return [self.device.put(arrays[info.name]) for info in self.manifest.inputs]

    def _collect(self, result: Any) -> dict[str, Array]:
        tensors = [result] if isinstance(result, tvm_ffi.Tensor) else list(result)
        names = (info.name for info in self.manifest.outputs)
        # Copied: the memory goes back to the VM's pool with the tensor.
        return {name: self.device.get(tensor) for name, tensor in zip(names, tensors, strict=True)}


def checked_inputs(path: Path, manifest: Manifest, inputs: Inputs) -> Mapping[str, Array]:
    """Return the inputs by name.

    Raises
    ------
    ArtifactError
        If a name, a shape or a type is not that of the artifact at ``path``, or an integer is no
        valid index.
    """
    expected = manifest.inputs
    if not isinstance(inputs, Mapping):
        if len(expected) != 1:
            raise ArtifactError(
                f"{path}: one array given, {len(expected)} inputs expected; "
                f"pass a dictionary with {_names(expected)}"
            )
        inputs = {expected[0].name: inputs}
    if set(inputs) != {info.name for info in expected}:
        raise ArtifactError(
            f"{path}: inputs {', '.join(sorted(inputs)) or 'none'} given; "
            f"{_names(expected)} expected"
        )
    for info in expected:
        reason = info.misfit(inputs[info.name])
        if reason:
            raise ArtifactError(f"{path}: input {info.name}: {reason}")
    if manifest.max_batch is not None:
        _check_batch(path, manifest.max_batch, {len(array) for array in inputs.values()})
    return inputs


def _check_batch(path: Path, most: int, batches: set[int]) -> None:
    if len(batches) > 1:
        raise ArtifactError(f"{path}: inputs of batches {sorted(batches)} given; one expected")
    (batch,) = batches
    if not 1 <= batch <= most:
        raise ArtifactError(
            f"{path}: batch {batch} given, 1 to {most} expected; split it, or build the artifact "
            "again with a larger --max-batch"
        )


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
            "build it again with a --target for this computer"
        )
    missing = lacking(manifest.cpu_flags)
    if missing:
        return (
            f"built for a CPU with {missing}, which this one lacks; "
            "build it again with --target native on this computer"
        )
    return None


def _names(infos: tuple[TensorInfo, ...]) -> str:
    return ", ".join(info.name for info in infos)
