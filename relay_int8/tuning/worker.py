"""Worker processes, for code that may crash, hang or be killed."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

from relay_int8.errors import Int8Error

Serve = Callable[[Connection], None]
FOLDER = "relay-int8-tune-"


class WorkerLostError(Int8Error):
    """The process crashed, or was killed because it took too long; the message says which."""


class Worker:
    """A child process that answers requests over a pipe, started when it is first needed.

    Its temporary files, and those of compilers that it runs, lie in a folder of its own, which is
    gone when it is stopped or lost; where this process is killed, the child ends and removes it.

    Parameters
    ----------
    serve
        A function of a module: receives a connection, answers requests from it until it closes.
    environment
        Variables that the process has besides those of this one.

    ``has_answered`` says whether the process has, and so has imported what it needs.
    """

    def __init__(self, serve: Serve, environment: dict[str, str] | None = None) -> None:
        self._serve = serve
        self._environment = environment or {}
        self._process: Any = None
        self._connection: Connection | None = None
        self._folder = ""
        self.has_answered = False

    def send(self, request: object) -> None:
        """Send a request; starts the process if there is none."""
        if self._process is None:
            self._start()
        assert self._connection is not None
        # A process that is gone says so when its answer is asked for.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._connection.send(request)

    def answers(self, timeout_s: float) -> bool:
        """Wait for an answer, or the end of the process, and say whether :meth:`receive` has it."""
        assert self._connection is not None
        return self._connection.poll(timeout_s)

    def receive(self, timeout_s: float) -> Any:
        """Return the next answer.

        Raises
        ------
        WorkerLostError
            If there is none within ``timeout_s``, or the process ends; a new one is started then
            with the next request.
        """
        assert self._connection is not None
        try:
            if self._connection.poll(timeout_s):
                answer = self._connection.recv()
                self.has_answered = True
                return answer
        except (EOFError, ConnectionResetError):
            self._process.join(5)
            code = self._process.exitcode
            self.stop()
            raise WorkerLostError(f"crashed (exit code {code})") from None
        self.stop()
        raise WorkerLostError(f"took longer than {timeout_s:g} s")

    def stop(self) -> None:
        """Kill the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
        if self._connection is not None:
            self._connection.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._process, self._connection, self._folder = None, None, ""
        self.has_answered = False

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._folder = tempfile.mkdtemp(prefix=FOLDER)
        given = (self._serve, theirs, self._folder)
        self._process = context.Process(target=_run, args=given, daemon=True)
        before = {name: os.environ.get(name) for name in self._environment}
        os.environ.update(self._environment)
        try:
            self._process.start()
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        theirs.close()


def requests(connection: Connection) -> Iterator[Any]:
    """Yield requests until the other side is gone."""
    with suppress(EOFError, ConnectionResetError):
        while True:
            yield connection.recv()


def _run(serve: Serve, connection: Connection, folder: str) -> None:
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    ends = (signal.SIGTERM, signal.SIGHUP)  # they may come to both processes
    for number in ends:
        signal.signal(number, _exit)
    try:
        with suppress(BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
            serve(connection)
    finally:
        with suppress(KeyboardInterrupt, SystemExit):  # a second one is no reason to leave files
            for number in (*ends, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
        shutil.rmtree(folder, ignore_errors=True)


def _exit(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
