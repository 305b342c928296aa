"""TVM's runtime without its compiler: load a library on a device, give it memory, wait for it.

Needs ``tvm_ffi`` and ``libtvm_runtime``; for GPUs also ``libtvm_runtime_cuda``, which comes with
TVM, and NVIDIA's ``libcudart`` (of a toolkit, or of the extra ``cuda``). The Python package ``tvm``
is located, never imported.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi

from relay_int8.errors import ArtifactError, ConfigError
from schedules.cores import usable_cores
from schedules.cuda.device.cudart import CUDART, load_cudart

Array = np.ndarray[Any, Any]
CUDA = 2  # DLPack's kDLCUDA
ALIGNMENT = 64  # bytes, which kernels of TVM assume of every tensor
_TYPES = {"cpu": 1, "cuda": CUDA, "cuda_host": 3}  # those of DLPack; the last is pinned
MAX_THREADS = 1024
"""More would only exhaust the threads of a process, which aborts it."""
_POOLED = 2  # number of the Relax VM's allocator that keeps memory between runs
_BIG_CORES = 1  # of config_threadpool: prefer big cores, the runtime's own default
_thread = threading.local()  # has_cores: keep_to has said how many
_pool = {"process": 0}  # number of the process that the runtime's threads are of, once there are


@dataclass(frozen=True)
class RuntimeDevice:
    """The device a library runs on: "cpu" or "cuda", and its index."""

    kind: str = "cpu"
    number: int = 0

    def __str__(self) -> str:
        """Return what people call it."""
        return f"GPU {self.number}" if self.kind == "cuda" else "the CPU"

    @property
    def handle(self) -> Any:
        """The device as TVM's functions take it."""
        return tvm_ffi.device(_TYPES[self.kind], self.number)

    @property
    def pinned(self) -> RuntimeDevice:
        """The memory of the host from which a GPU copies by itself."""
        return RuntimeDevice("cuda_host", self.number)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        """Return a new tensor in memory of the device, aligned as kernels assume."""
        allocate = tvm_ffi.get_global_func("runtime.TVMTensorAllocWithScope")
        return allocate(tvm_ffi.Shape(shape), tvm_ffi.dtype(dtype), self.handle, None)

    def put(self, array: Array) -> Any:
        """Return a copy of ``array`` in memory of the device."""
        tensor = self.empty(array.shape, str(array.dtype))
        self.write(tensor, array)
        return tensor

    def write(self, tensor: Any, array: Array) -> None:
        """Copy ``array`` into a tensor of its shape and type."""
        array = np.ascontiguousarray(array)
        copy = tvm_ffi.get_global_func("runtime.TVMTensorCopyFromBytes")
        copy(tensor, array.ctypes.data_as(ctypes.c_void_p), array.nbytes)

    def get(self, tensor: Any) -> Array:
        """Return a copy of ``tensor`` in NumPy's memory, when all that was started is done."""
        if self.kind == "cpu":
            here: Array = np.from_dlpack(tensor).copy()
            return here
        array = np.empty(tuple(tensor.shape), str(tensor.dtype))
        copy = tvm_ffi.get_global_func("runtime.TVMTensorCopyToBytes")
        copy(tensor, array.ctypes.data_as(ctypes.c_void_p), array.nbytes)
        return array

    def wait(self) -> None:
        """Return when all that was started is done; a CPU is never behind."""
        if self.kind != "cpu":
            sync = tvm_ffi.get_global_func("runtime.Device_StreamSync")
            sync(self.handle, 0)


def load_library(file: Path, device: RuntimeDevice) -> tvm_ffi.Module:
    """Return a compiled network that runs on ``device``; its file may go when this returns.

    Raises
    ------
    ArtifactError
        If TVM's runtime, or for a GPU CUDA's, is not installed.
    ConfigError
        If ``TVM_NUM_THREADS`` is no number of threads that there can be.
    """
    wanted_threads()
    # The runtime would bind its workers to cores but not the caller's thread, so that on a busy
    # computer the two may share one; the operating system's scheduler does better.
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    runtime = _runtime_folder() / "libtvm_runtime.so"
    ctypes.CDLL(str(runtime), ctypes.RTLD_GLOBAL)
    if device.kind == "cuda":
        load_gpu_runtime()
    return tvm_ffi.load_module(str(file))


def start(
    library: tvm_ffi.Module,
    device: RuntimeDevice,
    initializing: AbstractContextManager[None] | None = None,
    weights: Sequence[Array] = (),
) -> tvm_ffi.Module:
    """Return a Relax VM on a library; on a CPU all of them have the library's constants in common.

    A virtual machine runs one call at a time; several run at the same time. ``initializing`` is
    entered while it looks up its functions. ``weights`` are the last arguments of ``main``, which
    it has from now on: on a CPU it reads them where they lie, aligned to ``ALIGNMENT`` bytes.
    """
    vm: tvm_ffi.Module = library["vm_load_executable"]()
    # Sizes are computed on the CPU, so it is always among the devices, as the last.
    devices = [device, *([RuntimeDevice()] if device.kind != "cpu" else [])]
    flat = [(_TYPES[each.kind], each.number, _POOLED) for each in devices]
    with initializing or nullcontext():
        vm["vm_initialization"](*(value for triple in flat for value in triple))
    if weights:
        tensors = [tvm_ffi.from_dlpack(array, require_alignment=ALIGNMENT) for array in weights]
        # Saved under the name that it has: who looks up `main` gets it without these arguments.
        vm["save_function"]("main", "main", 1, *tensors)
    return vm


def load_gpu_runtime() -> None:
    """Load the part of TVM's runtime that drives GPUs; needs the driver.

    Raises
    ------
    ArtifactError
        If it cannot be loaded; the message says what is missing.
    """
    if not load_cudart():
        raise ArtifactError(
            f"{CUDART} cannot be loaded; TVM drives GPUs with it: pip install 'relay-int8[cuda]', "
            "or install CUDA 13"
        )
    path = _runtime_folder() / "libtvm_runtime_cuda.so"
    try:
        ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise ArtifactError(
            f"TVM's runtime for GPUs cannot be loaded ({error}); it needs the NVIDIA driver, and "
            "an apache-tvm that was built with CUDA"
        ) from error


def require_threads(count: object) -> None:
    """Refuse a number of threads that there cannot be.

    Raises
    ------
    ConfigError
        If it is no integer from 1 to ``MAX_THREADS``.
    """
    if type(count) is not int or not 1 <= count <= MAX_THREADS:
        raise ConfigError(
            f"{count!r} threads are asked for; a number from 1 to {MAX_THREADS} is expected"
        )


def set_threads(count: int) -> None:
    """Give the runtime's pool ``count`` threads, and set ``TVM_NUM_THREADS`` accordingly.

    The pool is made at its first use, with as many as the variable says, and never grows.

    Raises
    ------
    ConfigError
        If it exists already and is smaller, or there cannot be so many.
    """
    require_threads(count)
    _resize(count)
    running = threads()  # makes the pool, if there is none
    if running != count:
        _resize(running)
        raise ConfigError(
            f"{count} threads wanted, but the runtime of this process started with {running} and "
            f"cannot have more; load with {count} threads first, or set TVM_NUM_THREADS={count}"
        )


def require_own_pool() -> None:
    """Refuse to go on in a fork of the process whose threads would be waited for forever.

    Raises
    ------
    ConfigError
        If this process was forked from one in which networks were loaded, for several threads.
    """
    own = os.getpid()
    if _pool["process"] in (0, own):
        _pool["process"] = own
    elif threads() > 1:
        raise ConfigError(
            f"process {own} was forked from {_pool['process']}, which had loaded a network for "
            f"{threads()} threads: a fork has none of these; load it in processes that are "
            "spawned (multiprocessing.get_context('spawn')), or for one thread before the fork"
        )


def use_all_cores() -> None:
    """Let the runtime use every core of this process, unless ``TVM_NUM_THREADS`` says how many.

    By itself it takes half of x86's logical cores, which on a virtual machine may be half of all
    there is. A pool that exists already does not grow: call this before anything runs.
    """
    if "TVM_NUM_THREADS" not in os.environ and not getattr(_thread, "has_cores", False):
        os.environ.setdefault("TVM_BIND_THREADS", "0")
        _resize(usable_cores())


def wanted_threads() -> int:
    """Return how many threads are to compute: what ``TVM_NUM_THREADS`` says, else every core.

    Raises
    ------
    ConfigError
        It says something else, which the runtime would take for one thread.
    """
    wanted = os.environ.get("TVM_NUM_THREADS")
    if wanted is None:
        return usable_cores()
    count = int(wanted) if wanted.isascii() and wanted.isdecimal() else 0
    if not 1 <= count <= MAX_THREADS:
        raise ConfigError(
            f"TVM_NUM_THREADS={wanted} is set in the environment, a number from 1 to {MAX_THREADS} "
            "expected; set one, or unset the variable"
        )
    return count


def keep_to(cores: int) -> None:
    """Let the calling thread run its kernels on so many cores; other threads have their own pools.

    On one it runs them itself.
    """
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    # The runtime counts the cores that are named here; without binding, which ones is the same.
    tvm_ffi.get_global_func("runtime.config_threadpool")(_BIG_CORES, cores, ["0"] * cores)
    _thread.has_cores = True


def _resize(count: int) -> None:
    # Every launch reads the variable: where it says 1, or the runtime's own default is 1, kernels
    # run on one thread, whatever the pool has. So it stays set.
    os.environ["TVM_NUM_THREADS"] = str(count)
    tvm_ffi.get_global_func("runtime.config_threadpool")(_BIG_CORES, count)


def threads() -> int:
    """Return how many threads the runtime's pool has."""
    return int(tvm_ffi.get_global_func("runtime.NumThreads")())


def _runtime_folder() -> Path:
    for folder in _folders("tvm"):
        if (folder / "lib" / "libtvm_runtime.so").exists():
            return folder / "lib"
    raise ArtifactError(
        "libtvm_runtime.so not found; install apache-tvm, which brings the TVM runtime"
    )


def _folders(package: str) -> list[Path]:
    """Return where a package lies, without importing it."""
    spec = importlib.util.find_spec(package)
    return [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or ()]
