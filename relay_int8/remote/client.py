"""The process that talks to a device: connects, uploads, checks, runs, times, cleans up.

Run by ``remote.deploy.deploy``, which ends it when its time is over: TVM waits for a lost
device without end. What it shall do lies in a folder, what came of it is put there:
``request.json``, ``library.so``, ``weights.bin`` if there are any and ``inputs.npz`` in;
``answer.json`` and ``outputs.npz`` out.
With ``expected.npz`` it runs the network kernel by kernel, and ``outputs.npz`` has what kernels
wrote otherwise. It prints what it is about to do, a line each.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax, rpc

from relay_int8.errors import DeployError
from relay_int8.remote.address import Address
from relay_int8.remote.device import Device, Needs, misfit
from relay_int8.remote.server_process import (
    DESCRIBE,
    DIFFERENT,
    DIGEST,
    EXPECTED,
    INPUTS,
    RUN_KERNELS,
    WEIGHT,
)
from relay_int8.runtime.artifact import LIBRARY, WEIGHTS
from relay_int8.runtime.manifest import Manifest

MIN_REPEAT_MS = 10


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to do, but for the artifact."""

    host: str
    port: int
    tracker: bool
    key: str
    repeats: int
    timeout_s: float


def main(folder: Path) -> None:
    """Do what lies in ``folder``; an error becomes the answer."""
    values = json.loads((folder / "request.json").read_text())
    manifest = Manifest.from_json((folder / "manifest.json").read_text())
    try:
        work = compare_on if (folder / EXPECTED).exists() else deploy_to
        answer, outputs = work(Request(**values), manifest, folder)
        np.savez(folder / "outputs.npz", allow_pickle=False, **outputs)
    except DeployError as error:
        answer = {"error": str(error)}
    (folder / "answer.json").write_text(json.dumps(answer))
    sys.stdout.flush()
    # Without destructors: those of a lost session may abort.
    os._exit(0)


def deploy_to(
    request: Request, manifest: Manifest, folder: Path
) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Return device and times, and the outputs by position."""
    address, seconds = Address(request.host, request.port), dict[str, float]()
    session, device = _uploaded(request, manifest, folder, seconds)
    try:
        with _stage("load", address, seconds):
            where = session.cuda(0) if manifest.gpu else session.cpu(0)
            machine = relax.VirtualMachine(session.load_module(LIBRARY), where)
            weights = _weights(session, manifest, address)
        with _stage("run", address, seconds):
            outputs = _run(machine, where, manifest, folder, weights)
        with _stage("time", address, seconds):
            times_ms = _times_ms(machine, where, request.repeats)
    finally:
        _remove(session, LIBRARY, *_weight_files(manifest))
    answer = {"device": asdict(device), "times_ms": times_ms, "seconds": seconds}
    return answer, {str(place): array for place, array in enumerate(outputs)}


def compare_on(
    request: Request, manifest: Manifest, folder: Path
) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """Return what kernels of a device wrote otherwise than expected, by index of the call."""
    address, seconds = Address(request.host, request.port), dict[str, float]()
    session, _ = _uploaded(request, manifest, folder, seconds)
    orders = {
        "kind": "cuda" if manifest.gpu else "cpu",
        "inputs": [info.name for info in manifest.inputs],
        "functions": [kernel.function for kernel in manifest.kernels],
        "weights": [asdict(entry) for entry in manifest.weights],
    }
    try:
        with _stage("run it kernel by kernel", address, seconds):
            for name in (INPUTS, EXPECTED):
                session.upload(str(folder / name), name)
            why = "outputs differ, and its relay-int8 cannot run a network kernel by kernel"
            _function(session, RUN_KERNELS, address, why)(json.dumps(orders))
            content = session.download(DIFFERENT)
    finally:
        _remove(session, LIBRARY, *_weight_files(manifest), INPUTS, EXPECTED, DIFFERENT)
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {}, dict(arrays)


def _uploaded(
    request: Request, manifest: Manifest, folder: Path, seconds: dict[str, float]
) -> tuple[rpc.RPCSession, Device]:
    """Return a session of a device that fits the artifact and has its library, and the device."""
    address = Address(request.host, request.port)
    address.check_known()
    with _stage("connect", address, seconds):
        session = _connect(request, address)
    with _stage("describe the device", address, seconds):
        device = describe(session, address)
    reason = misfit(Needs.of(manifest), device)
    if reason:
        raise DeployError(f"{address}: the artifact does not fit: {reason}")
    with _stage("upload", address, seconds):
        for name in (LIBRARY, *_weight_files(manifest)):
            session.upload(str(folder / name), name)
        _check_digests(session, manifest, address)
    return session, device


@contextmanager
def _stage(name: str, address: Address, seconds: dict[str, float]) -> Iterator[None]:
    """Say what is being done, keep how long it took; what TVM raises becomes a DeployError."""
    print(name, flush=True)
    start = time.perf_counter()
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        raise DeployError(f"{address}: could not {name}: {_reason(error)}") from error
    seconds[name] = round(time.perf_counter() - start, 3)


def _reason(error: Exception) -> str:
    """Tell an error that the device reports from the loss of the device."""
    last = str(error).strip().splitlines()[-1]
    if isinstance(error, tvm.error.RPCError):
        return f"the device says: {last}"
    return f"the device is lost ({last}); see what it printed, and try again"


def _connect(request: Request, address: Address) -> rpc.RPCSession:
    if request.tracker:
        tracker = rpc.connect_tracker(address.host, address.port)
        _check_key(tracker.summary(), request.key, address)
        return tracker.request(request.key, session_timeout=request.timeout_s)
    try:
        return rpc.connect(address.host, address.port, request.key, request.timeout_s)
    except RuntimeError as error:
        raise DeployError(f"{address}: {_connect_reason(str(error), request.key)}") from error


def _check_key(summary: Mapping[str, Any], key: str, address: Address) -> None:
    """Refuse to wait for a kind of device that the tracker does not know."""
    known = {item["key"].removeprefix("server:") for item in summary["server_info"]}
    if key not in known:
        raise DeployError(
            f"{address}: the tracker has no device with key {key!r}, but "
            f"{', '.join(sorted(known)) or 'none at all'}; "
            f"start one: relay-int8 serve --tracker {address} --key {key}"
        )


def _connect_reason(error: str, key: str) -> str:
    if "matches key" in error:
        return (
            f"there is no device with key {key!r}; give the key of relay-int8 serve, or, where "
            "it serves for a tracker, the tracker's address, as Endpoint(tracker=True)"
        )
    if "Connect to" in error:
        return "nothing listens there; start relay-int8 serve on the device, or mend the address"
    reason = error.strip().splitlines()[-1]
    return f"no RPC server ({reason}); a tracker is given as Endpoint(tracker=True)"


def describe(session: rpc.RPCSession, address: Address) -> Device:
    """Return what the device of a session says that it is."""
    try:
        description = session.get_function(DESCRIBE)()
    except AttributeError as error:
        raise DeployError(
            f"{address}: an RPC server of TVM's own; it cannot say what device it is; "
            "run relay-int8 serve there instead"
        ) from error
    return Device.of(json.loads(description))


def _function(session: rpc.RPCSession, name: str, address: Address, why: str) -> Any:
    """Return a function of ours that the device has; ``why`` says what it lacks otherwise."""
    try:
        return session.get_function(name)
    except AttributeError as error:
        raise DeployError(
            f"{address}: {why} ({name} is missing); install this version there"
        ) from error


def _weight_files(manifest: Manifest) -> list[str]:
    """Return the file of the weights, if the artifact has any beside its library."""
    return [WEIGHTS] if manifest.weights else []


def _check_digests(session: rpc.RPCSession, manifest: Manifest, address: Address) -> None:
    uploaded = {LIBRARY: ("the library was", manifest.library_sha256)}
    if manifest.weights:
        uploaded[WEIGHTS] = ("the weights were", manifest.weights_sha256)
    for name, (subject, sha256) in uploaded.items():
        device_sha256 = session.get_function(DIGEST)(name)
        if device_sha256 != sha256:
            _remove(session, *uploaded)
            raise DeployError(
                f"{address}: {subject} altered on its way: its sha256 there is "
                f"{device_sha256[:16]}..., not {sha256[:16]}...; nothing was run; "
                "try again, and look at the device's disk and network if it happens again"
            )


def _weights(session: rpc.RPCSession, manifest: Manifest, address: Address) -> list[Any]:
    """Return the weights as tensors of the device, which reads them from the uploaded file."""
    if not manifest.weights:
        return []
    why = "its relay-int8 cannot read weights beside a library"
    weight = _function(session, WEIGHT, address, why)
    return [weight(entry.offset, entry.dtype, *entry.shape) for entry in manifest.weights]


def _run(
    machine: relax.VirtualMachine,
    where: Any,
    manifest: Manifest,
    folder: Path,
    weights: Sequence[Any],
) -> list[np.ndarray[Any, Any]]:
    with np.load(folder / "inputs.npz", allow_pickle=False) as arrays:
        inputs: Mapping[str, Any] = dict(arrays)
    tensors = [tvm.runtime.tensor(inputs[info.name], where) for info in manifest.inputs]
    machine.set_input("main", *tensors, *weights)
    machine.invoke_stateful("main")
    outputs = machine.get_outputs("main")
    return [
        tensor.numpy() for tensor in (outputs if isinstance(outputs, list | tuple) else [outputs])
    ]


def _times_ms(machine: relax.VirtualMachine, where: Any, repeats: int) -> list[float]:
    """Return mean milliseconds of ``repeats`` series of runs, by the device's own clock."""
    evaluate = machine.time_evaluator(
        "invoke_stateful", where, number=1, repeat=repeats, min_repeat_ms=MIN_REPEAT_MS
    )
    return [seconds * 1e3 for seconds in evaluate("main").results]


def _remove(session: rpc.RPCSession, *names: str) -> None:
    """Remove files; a lost session has lost its folder anyway."""
    for name in names:
        try:
            session.remove(name)
        except (OSError, RuntimeError):
            print(f"{name} could not be removed", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
