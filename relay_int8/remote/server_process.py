"""The process that serves: TVM's RPC server, with two functions of ours and its files confined.

Run by ``remote.supervisor`` as leader of a process group of its own, which it ends when
standard input closes, that is when its parent has ended, however that happened. TVM forks one
process for each session; a session that crashes ends the whole server (so TVM has it), and the
parent starts it again.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import platform
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import tvm_ffi
from tvm.rpc.server import PopenRPCServerState
from tvm.support.utils import TempDirectory

from relay_int8.errors import ArtifactError
from relay_int8.machine.gpu import installed_gpus
from relay_int8.machine.host import clocks, cpu_name
from relay_int8.remote.kernel_run import by_number, numbered, run_kernels
from relay_int8.runtime.artifact import LIBRARY, WEIGHTS
from relay_int8.runtime.tvm_runtime import ALIGNMENT, load_gpu_runtime
from relay_int8.runtime.weight_entry import WeightEntry
from relay_int8.runtime.weights import arrays_in, map_bytes
from relay_int8.version import __version__
from schedules.cpu_flags import cpu_flags

DESCRIBE, DIGEST = "relay_int8.device", "relay_int8.sha256"
RUN_KERNELS, WEIGHT = "relay_int8.run_kernels", "relay_int8.weight"
INPUTS, EXPECTED, DIFFERENT = "inputs.npz", "expected.npz", "different.npz"
"""Files of a session beside the network's: inputs, what kernels must write, what they wrote."""


@dataclass(frozen=True, kw_only=True)
class Orders:
    """What the parent writes to standard input, as one line of JSON."""

    host: str
    port: int
    key: str
    tracker: tuple[str, int] | None
    proxy: tuple[str, int] | None
    work: str


def main() -> None:
    """Serve until the parent ends; exit with 1 if TVM's server gives up."""
    # Unbuffered and by file number: forked sessions close sys.stdin, whose lock must be free then.
    with open(0, "rb", buffering=0, closefd=False) as stdin:
        orders = Orders(**json.loads(stdin.readline()))
    # Sessions have to be forks, which inherit what is registered here; in Python 3.14 they would
    # come from a forkserver, which knows nothing of it.
    multiprocessing.set_start_method("fork", force=True)
    threading.Thread(target=_end_with_parent, args=(orders.work,), daemon=True).start()
    _register()
    state = _start(orders)
    # The one message to the parent: listening.
    print(json.dumps({"port": state.port}), flush=True)
    state.thread.join()
    sys.exit(1)


def _start(orders: Orders) -> PopenRPCServerState:
    host, port = orders.proxy or (orders.host, orders.port or _free_port(orders.host))
    return PopenRPCServerState(
        host,
        port,
        port + 1,
        is_proxy=orders.proxy is not None,
        tracker_addr=tuple(orders.tracker) if orders.tracker else None,
        key=orders.key,
    )


def _free_port(host: str) -> int:
    family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
    with socket.socket(family, socket.SOCK_STREAM) as bound:
        bound.bind((host, 0))
        return int(bound.getsockname()[1])


def _end_with_parent(work: str) -> None:
    while os.read(0, 1):
        pass
    shutil.rmtree(work, ignore_errors=True)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _register() -> None:
    """Give sessions what deploy asks for, and keep the files they name in their own folder.

    Sessions are forks, and CUDA does not survive a fork: here its libraries are loaded, no more.
    """
    with suppress(ArtifactError):  # no driver, no GPU: artifacts for the CPU run all the same
        load_gpu_runtime()
    tvm_ffi.register_global_func(DESCRIBE, describe, override=True)

    def _sha256(name: str) -> str:
        path = tvm_ffi.get_global_func("tvm.rpc.server.workpath")(name)
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()

    tvm_ffi.register_global_func(DIGEST, _sha256, override=True)
    tvm_ffi.register_global_func(RUN_KERNELS, _run_kernels, override=True)
    tvm_ffi.register_global_func(WEIGHT, _weight, override=True)
    # TVM's server asks its folder for the path of every file that a session names.
    TempDirectory.relpath = _confined


def _run_kernels(orders: str) -> None:
    """Compare a session's network kernel by kernel; the files are those of the session."""
    of_session = tvm_ffi.get_global_func("tvm.rpc.server.workpath")
    values = json.loads(orders)
    with np.load(of_session(INPUTS), allow_pickle=False) as arrays:
        inputs = [arrays[name] for name in values["inputs"]]
    with np.load(of_session(EXPECTED), allow_pickle=False) as arrays:
        expected = by_number(dict(arrays))
    library = Path(of_session(LIBRARY))
    different = run_kernels(
        library,
        values["kind"],
        inputs,
        values["functions"],
        expected,
        weights=[_weight_array(**entry) for entry in values["weights"]],
    )
    np.savez(of_session(DIFFERENT), allow_pickle=False, **numbered(different))


def _weight(offset: int, dtype: str, *shape: int) -> tvm_ffi.Tensor:
    """Return an array among the weights that a session has uploaded, as a tensor of the CPU."""
    array = _weight_array(offset, shape, dtype)
    return tvm_ffi.from_dlpack(array, require_alignment=ALIGNMENT)


def _weight_array(offset: int, shape: Sequence[int], dtype: str) -> np.ndarray[Any, Any]:
    entry = WeightEntry(offset=offset, shape=tuple(shape), dtype=dtype)
    path = Path(tvm_ffi.get_global_func("tvm.rpc.server.workpath")(WEIGHTS))
    with path.open("rb") as file:
        (array,) = arrays_in(map_bytes(file, 0, path.stat().st_size), [entry])
    return array


def _confined(folder: TempDirectory, name: str) -> str:
    """Return the path of file ``name`` of a session; one outside of its folder is refused."""
    root = Path(folder.temp_dir).resolve()
    path = (root / name).resolve()
    if not path.is_relative_to(root):
        raise ValueError(f"{name}: outside of the session's folder")
    return str(path)


def describe() -> str:
    """Return what this computer is, as JSON; :class:`relay_int8.remote.device.Device` reads it."""
    return json.dumps(
        {
            "cpu": cpu_name(),
            "machine": platform.machine(),
            "cpu_flags": sorted(cpu_flags()),
            "threads": int(tvm_ffi.get_global_func("runtime.NumThreads")()),
            "tvm_version": version("apache-tvm"),
            "tvm_ffi_version": version("apache-tvm-ffi"),
            "project_version": __version__,
            "clocks": clocks(),
            "gpus": asdict(installed_gpus()),
        }
    )


if __name__ == "__main__":
    main()
