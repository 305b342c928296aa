"""Processes that take turns: each holds one network, and runs only while it is asked to."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.turn import Turn

if TYPE_CHECKING:  # it needs onnx, which is not where a GPU is
    from benchmarks.systems import System

Start = tuple["System", Path, Any, int, Sequence[int]]
"""What a :class:`Racer` is made from; the inputs, third, are as its system wants them."""
WARM_UP_S = 0.03  # of every turn, not counted


class RacerError(RuntimeError):
    """A process ended before it was told to."""


class Racer:
    """A process with one loaded network; stopped whenever it is not its turn.

    Thread pools keep spinning for a while after a run. A stopped process does not disturb others,
    and every system keeps its own defaults while it runs.
    """

    def __init__(
        self, system: System, file: Path, inputs: Any, threads: int, cores: Sequence[int]
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, system, file, inputs, threads, tuple(cores))
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    def wait_until_loaded(self) -> None:
        """Receive the logits.

        Raises
        ------
        RacerError
            If the process ended; its traceback is on standard error.
        """
        self.logits: np.ndarray = self._receive()
        self._stop()

    def turn(self, seconds: float) -> Turn:
        """Run for ``seconds`` at least."""
        self._signal(signal.SIGCONT)
        self._pipe.send(seconds)
        turn: Turn = self._receive()
        self._stop()
        return turn

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()

    def _receive(self) -> Any:
        try:
            return self._pipe.recv()
        except EOFError as error:
            self._process.join()
            raise RacerError(
                f"its process ended with exit code {self._process.exitcode}, see standard error"
            ) from error

    def _stop(self) -> None:
        self._signal(signal.SIGSTOP)
        assert self._process.pid is not None
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)


@contextmanager
def racers(starts: Mapping[str, Start]) -> Iterator[tuple[dict[str, Racer], dict[str, str]]]:
    """Start processes one after the other; give them, and why others did not start; end all."""
    running: dict[str, Racer] = {}
    failures: dict[str, str] = {}
    try:
        for key, start in starts.items():
            racer = Racer(*start)
            running[key] = racer
            try:
                racer.wait_until_loaded()
            except RacerError as error:
                failures[key] = str(error)
                running.pop(key).close()
        yield running, failures
    finally:
        for racer in running.values():
            racer.close()


def _serve(
    pipe: Connection,
    system: System,
    file: Path,
    inputs: Any,
    threads: int,
    cores: tuple[int, ...],
) -> None:
    os.sched_setaffinity(0, cores)
    os.environ["TVM_NUM_THREADS"] = str(threads)
    running = system.load(file, inputs, threads)
    pipe.send(running.outputs())
    while True:
        seconds = pipe.recv()
        running.turn(WARM_UP_S)
        pipe.send(running.turn(seconds))
