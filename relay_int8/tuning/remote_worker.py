"""Compile candidates here, check and time them on a device that is connected, or lent by a tracker.

Runs in a worker process of :class:`relay_int8.tuning.remote_measurer.RemoteMeasurer`, which
kills it if a candidate takes too long; the device then ends the session at its own deadline.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import tvm
from tvm import rpc
from tvm.target import Target

from relay_int8.compiler.gpu_code import gpu_needs
from relay_int8.compiler.link import export_library
from relay_int8.errors import DeployError
from relay_int8.remote.address import Endpoint
from relay_int8.remote.client import describe
from relay_int8.remote.device import Device, Needs, misfit
from relay_int8.tuning.batch import Batch, Measured
from relay_int8.tuning.bench import Contender, compile_batch, last_line, measured
from relay_int8.tuning.device_fault import fault_of
from relay_int8.tuning.problem import Problem, problem
from relay_int8.tuning.worker import requests
from schedules.targets import machine, needed_flags

LIBRARY = "library.so"
READY = "ready"
MEET_S = 60.0  # of a session that only asks a device what it is; GPUs may take half of it to start


def connect(endpoint: Endpoint, session_s: float) -> tuple[rpc.RPCSession, Device]:
    """Wait for a device that is free; return a session that it ends after ``session_s``.

    Raises
    ------
    DeployError, OSError, RuntimeError
        If nothing answers, or the device is lost at once.
    """
    host, port = endpoint.address.host, endpoint.address.port
    if endpoint.tracker:
        endpoint.address.check_listening("tracker", "start one: python -m tvm.exec.rpc_tracker")
        tracker = rpc.connect_tracker(host, port)
        session = tracker.request(endpoint.key, session_timeout=session_s)
    else:
        endpoint.address.check_listening("device", "start relay-int8 serve there")
        session = rpc.connect(host, port, endpoint.key, session_s)
    return session, describe(session, endpoint.address)


@dataclass(frozen=True)
class NoDevice:
    """There is no device now; or, if ``final``, none that fits."""

    reason: str
    final: bool = False


@dataclass(frozen=True)
class SessionLost:
    """The device, or the session on it, ended while a candidate ran."""

    reason: str


def needs(target: Mapping[str, Any]) -> Needs:
    """Return what code for ``target`` needs of a device."""
    where = Target(dict(target))
    return Needs(
        target=target,
        machine=machine(where),
        cpu_flags=needed_flags(where),
        gpu=gpu_needs(where),
    )


def serve(endpoint: Endpoint, connection: Connection) -> None:
    """Answer the requests of :mod:`relay_int8.tuning.remote_measurer`.

    A batch is compiled and answered with None, or with why it does not compile. A number runs it,
    in a session of so many seconds: the answer is None when there is a device, else
    :class:`NoDevice`; then come a result for each candidate, or :class:`SessionLost` in the place
    of one, which ends the run. A target is answered with a device that can run its code;
    :data:`READY` with None, to say that this process has started.
    """
    compiled: _Compiled | None = None
    with tempfile.TemporaryDirectory() as folder:
        for request in requests(connection):
            if isinstance(request, Batch):
                try:
                    compiled = _compile(request, Path(folder) / LIBRARY, compiled)
                    connection.send(None)
                except (RuntimeError, TypeError, ValueError) as error:
                    connection.send(last_line(error))
            elif request == READY:
                connection.send(None)
            elif isinstance(request, dict):
                connection.send(_fitting(endpoint, MEET_S, request)[1])
            else:
                assert compiled is not None
                _run(endpoint, request, compiled, connection)


@dataclass(frozen=True)
class _Compiled:
    batch: Batch
    library: Path
    refusals: list[str]
    problem: Problem


def _compile(batch: Batch, library: Path, before: _Compiled | None) -> _Compiled:
    """Compile a batch; another one of the same task before it saves making its problem again."""
    kernel, executable, refusals = compile_batch(batch)
    if executable is not None:
        export_library(executable, kernel.target, library)
    same = before is not None and before.batch.task.key == batch.task.key
    given = before.problem if before is not None and same else problem(kernel)
    return _Compiled(batch, library, refusals, given)


def _fitting(
    endpoint: Endpoint, session_s: float, target: Mapping[str, Any]
) -> tuple[rpc.RPCSession | None, Device | NoDevice]:
    """Return a session and its device, or why there is none that can run the target's code."""
    try:
        session, device = connect(endpoint, session_s)
    except (DeployError, OSError, RuntimeError) as error:
        return None, NoDevice(last_line(error))
    reason = misfit(needs(target), device)
    threads = int(target.get("num-cores", device.threads))
    if reason is None and threads != device.threads:
        reason = (
            f"code for {threads} threads is to be tuned, the device runs {device.threads}; serve "
            f"with {threads} threads there, or tune for {device.threads}"
        )
    return session, NoDevice(reason, final=True) if reason else device


def _run(endpoint: Endpoint, session_s: float, compiled: _Compiled, connection: Connection) -> None:
    session, device = _fitting(endpoint, session_s, compiled.batch.target)
    connection.send(device if isinstance(device, NoDevice) else None)
    if session is None or isinstance(device, NoDevice):
        return
    try:
        for answer in _measured(session, compiled):
            connection.send(answer)
    except (OSError, RuntimeError) as error:
        fault = fault_of(str(error)) if compiled.batch.on_gpu else None
        connection.send(SessionLost(fault.reason if fault else last_line(error)))


def _measured(session: rpc.RPCSession, compiled: _Compiled) -> Iterator[Measured]:
    """Yield what each candidate is worth; the loss of the device is an error."""
    batch, given = compiled.batch, compiled.problem
    device = session.cuda(0) if batch.on_gpu else session.cpu(0)

    @cache
    def _loaded() -> tuple[Any, list[Any]]:
        session.upload(str(compiled.library), LIBRARY)
        constants = [tvm.runtime.tensor(array, device) for array in given.arguments]
        return session.load_module(LIBRARY), constants

    def _contender(name: str) -> Contender:
        module, constants = _loaded()
        return Contender(module, name, device, constants, given, batch.timing_of(given))

    # An error that the device itself reports is the candidate's: the device is still there. A GPU's
    # context is of no use after one, so the session ends.
    own = () if batch.on_gpu else (tvm.error.RPCError,)
    return measured(batch, compiled.refusals, _contender, *own)
