"""A compiled network that runs: checks what it is given, calls the TVM runtime.

Needs ``tvm_ffi`` and ``libtvm_runtime`` alone. The Python package ``tvm`` is located, never
imported: importing it would load the compiler.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import tempfile
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from relay_int8.errors import ArtifactError, ConfigError
from relay_int8.host import cpu_flags

if TYPE_CHECKING:
    from relay_int8.artifact import Manifest, TensorInfo

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Array] | Array
_CPU, _POOLED = 1, 2  # DLPack's kDLCPU; the Relax VM's allocator that keeps memory between runs


class Module:
    """One network of an artifact, loaded; made by :func:`relay_int8.load`."""

    def __init__(
        self, *, path: Path, manifest: Manifest, library: bytes, threads: int | None = None
    ) -> None:
        self.path = path
        self.manifest = manifest
        reason = refusal(manifest)
        if reason:
            raise ArtifactError(f"{path}: {reason}")
        self._vm = _start(library)
        if threads is not None:
            _set_threads(threads)

    @property
    def threads(self) -> int:
        """How many threads the runtime's pool has."""
        return _threads()

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
            If a name, a shape or a type is not the manifest's.
        """
        return self._collect(self._vm["main"](*self._arguments(inputs)))

    def time(self, inputs: Inputs, repeats: int = 10, *, warmup: int = 3) -> list[float]:
        """Return how many milliseconds each of ``repeats`` runs took, after ``warmup`` others."""
        arguments, main = self._arguments(inputs), self._vm["main"]
        for _ in range(warmup):
            main(*arguments)
        times_ms = []
        for _ in range(repeats):
            start = time.perf_counter()
            main(*arguments)
            times_ms.append((time.perf_counter() - start) * 1e3)
        return times_ms

    def profile(self, inputs: Inputs, repeats: int = 10) -> list[tuple[str, float]]:
        """Return each kernel in the order of execution, with the median of its microseconds."""
        arguments = self._arguments(inputs)
        names: list[str] = []
        times_ns: list[int] = []

        def note(_func: Any, name: str, before: bool, *_values: Any) -> None:
            if not name.startswith("vm.builtin."):
                if before:
                    names.append(name)
                times_ns.append(time.perf_counter_ns())

        self._vm["set_instrument"](tvm_ffi.convert(note))
        try:
            for _ in range(repeats):
                self._vm["main"](*arguments)
        finally:
            self._vm["set_instrument"](None)
        ticks = np.array(times_ns).reshape(repeats, -1, 2)
        medians_us = np.median(ticks[:, :, 1] - ticks[:, :, 0], axis=0) / 1e3
        return list(zip(names, medians_us.tolist(), strict=False))

    def _arguments(self, inputs: Inputs) -> list[Any]:
        arrays = checked_inputs(self.path, self.manifest, inputs)
        return [_aligned(arrays[info.name]) for info in self.manifest.inputs]

    def _collect(self, result: Any) -> dict[str, Array]:
        tensors = [result] if isinstance(result, tvm_ffi.Tensor) else list(result)
        names = (info.name for info in self.manifest.outputs)
        # Copied: the memory goes back to the VM's pool with the tensor.
        return {
            name: np.array(np.from_dlpack(tensor))
            for name, tensor in zip(names, tensors, strict=True)
        }


def checked_inputs(path: Path, manifest: Manifest, inputs: Inputs) -> Mapping[str, Array]:
    """Return the inputs by name.

    Raises
    ------
    ArtifactError
        If a name, a shape or a type is not that of the artifact at ``path``.
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
        reason = _misfit(info, inputs[info.name])
        if reason:
            raise ArtifactError(f"{path}: input {info.name}: {reason}")
    return inputs


def _start(library: bytes) -> Any:
    """Return a Relax VM on ``library``, whose file is gone again when this returns.

    The runtime would bind its workers to cores but not the caller's thread, so that on a busy
    computer the two may share one; the operating system's scheduler does better.
    """
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    ctypes.CDLL(str(_runtime_library()), ctypes.RTLD_GLOBAL)
    # The directory is 0700: nobody can exchange the library between writing and loading it.
    with tempfile.TemporaryDirectory(prefix="relay-int8-") as directory:
        file = Path(directory) / "library.so"
        file.write_bytes(library)
        vm = tvm_ffi.load_module(str(file))["vm_load_executable"]()
    vm["vm_initialization"](_CPU, 0, _POOLED)
    return vm


def _set_threads(threads: int) -> None:
    """Give the runtime's pool ``threads`` threads.

    The pool is made at its first use, with as many as ``TVM_NUM_THREADS`` says, and never grows.
    """
    before = os.environ.get("TVM_NUM_THREADS")
    os.environ["TVM_NUM_THREADS"] = str(threads)
    try:
        # 1 = prefer big cores, the runtime's own default.
        tvm_ffi.get_global_func("runtime.config_threadpool")(1, threads)
    finally:
        if before is None:
            del os.environ["TVM_NUM_THREADS"]
        else:
            os.environ["TVM_NUM_THREADS"] = before
    found = _threads()
    if found != threads:
        raise ConfigError(
            f"{threads} threads wanted, but the runtime of this process started with {found} and "
            f"cannot have more; load with {threads} threads first, or set TVM_NUM_THREADS={threads}"
        )


def _threads() -> int:
    return int(tvm_ffi.get_global_func("runtime.NumThreads")())


def _runtime_library() -> Path:
    spec = importlib.util.find_spec("tvm")
    folders = (spec.submodule_search_locations if spec else None) or []
    for folder in folders:
        file = Path(folder) / "lib" / "libtvm_runtime.so"
        if file.exists():
            return file
    raise ArtifactError(
        "libtvm_runtime.so not found; install apache-tvm, which brings the TVM runtime"
    )


def refusal(manifest: Manifest) -> str | None:
    """Say why this computer cannot run an artifact, or None."""
    return _wrong_tvm(manifest) or _wrong_computer(manifest)


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
    missing = sorted(set(manifest.cpu_flags) - cpu_flags())
    if missing:
        return (
            f"built for a CPU with {', '.join(missing)}, which this one lacks; "
            "build it again with --target native on this computer"
        )
    return None


def _misfit(info: TensorInfo, array: object) -> str | None:
    """Say why ``array`` cannot be input ``info``, or None."""
    if not isinstance(array, np.ndarray):
        return f"a {type(array).__name__} given, a NumPy array expected"
    if array.dtype != info.dtype:
        return f"type {array.dtype} given, {info.dtype} expected; convert it with .astype"
    fits = len(array.shape) == len(info.shape) and all(
        wanted in (-1, size) for wanted, size in zip(info.shape, array.shape, strict=True)
    )
    return None if fits else f"shape {array.shape} given, {info.shape} expected"


def _aligned(array: Array) -> Any:
    """Return a copy of ``array`` in memory of the runtime, aligned as kernels assume."""
    allocate = tvm_ffi.get_global_func("runtime.TVMTensorAllocWithScope")
    tensor = allocate(
        tvm_ffi.Shape(array.shape), tvm_ffi.dtype(str(array.dtype)), tvm_ffi.device("cpu", 0), None
    )
    np.from_dlpack(tensor)[...] = array
    return tensor


def _names(infos: tuple[TensorInfo, ...]) -> str:
    return ", ".join(info.name for info in infos)
