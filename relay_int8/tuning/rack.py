"""Compile candidates here, check and time them on a device that a tracker lends.

Runs in a worker process of :class:`relay_int8.tuning.remote.RemoteDevices`, which kills it if a
candidate takes too long; the device then ends the session at its own deadline.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import tvm
from tvm import rpc
from tvm.target import Target

from relay_int8.errors import DeployError
from relay_int8.remote.address import Address
from relay_int8.remote.client import describe
from relay_int8.remote.device import Device, Needs, misfit
from relay_int8.tuning.bench import Batch, Measured, compile_batch, verified_time
from relay_int8.tuning.problem import Problem, problem
from relay_int8.tuning.worker import requests
from schedules.targets import machine, needed_flags

LIBRARY = "library.so"


@dataclass(frozen=True, kw_only=True)
class Rack:
    """Devices of one kind behind a tracker."""

    tracker: Address
    key: str

    def connect(self, session_s: float) -> tuple[rpc.RPCSession, Device]:
        """Wait for a device that is free; return a session that it ends after ``session_s``.

        Raises
        ------
        DeployError, OSError, RuntimeError
            If there is no tracker, or the device is lost at once.
        """
        self.tracker.check_listening("tracker", "start one: python -m tvm.exec.rpc_tracker")
        tracker = rpc.connect_tracker(self.tracker.host, self.tracker.port)
        session = tracker.request(self.key, session_timeout=session_s)
        return session, describe(session, self.tracker)


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
    return Needs(target=target, machine=machine(where), cpu_flags=needed_flags(where))


def serve(rack: Rack, connection: Connection) -> None:
    """Answer the requests of :mod:`relay_int8.tuning.remote`.

    A batch is compiled and answered with None, or with why it does not compile. A number runs it,
    in a session of so many seconds: the answer is None when there is a device, else
    :class:`NoDevice`; then come a result for each candidate, or :class:`SessionLost` in the place
    of one, which ends the run.
    """
    compiled: _Compiled | None = None
    with tempfile.TemporaryDirectory(prefix="relay-int8-tune-") as folder:
        for request in requests(connection):
            if isinstance(request, Batch):
                try:
                    compiled = _compile(request, Path(folder) / LIBRARY, compiled)
                    connection.send(None)
                except (RuntimeError, TypeError, ValueError) as error:
                    connection.send(_last_line(error))
            else:
                assert compiled is not None
                _run(rack, request, compiled, connection)


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
        executable.export_library(str(library))
    same = before is not None and before.batch.task.key == batch.task.key
    given = before.problem if before is not None and same else problem(kernel)
    return _Compiled(batch, library, refusals, given)


def _run(rack: Rack, session_s: float, compiled: _Compiled, connection: Connection) -> None:
    try:
        session, device = rack.connect(session_s)
    except (DeployError, OSError, RuntimeError) as error:
        connection.send(NoDevice(_last_line(error)))
        return
    reason = misfit(needs(compiled.batch.target), device)
    connection.send(NoDevice(reason, final=True) if reason else None)
    if reason:
        return
    try:
        for measured in _measure(session, compiled):
            connection.send(measured)
    except (OSError, RuntimeError) as error:
        connection.send(SessionLost(_last_line(error)))


def _measure(session: rpc.RPCSession, compiled: _Compiled) -> Iterator[Measured]:
    """Yield what each candidate is worth; the loss of the device is an error."""
    cpu, module, constants = session.cpu(0), None, list[Any]()
    for index, refusal in enumerate(compiled.refusals):
        if refusal:
            yield Measured(verdict="refused", reason=refusal)
            continue
        if module is None:
            session.upload(str(compiled.library), LIBRARY)
            module = session.load_module(LIBRARY)
            constants = [tvm.runtime.tensor(array, cpu) for array in compiled.problem.arguments]
        try:
            yield verified_time(
                module, f"c{index}", cpu, constants, compiled.problem, compiled.batch.timing
            )
        except tvm.error.RPCError as error:  # the device itself says so: it is still there
            yield Measured(verdict="failed", reason=_last_line(error))


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
