"""Candidates for a GPU: compiled in several processes, run in one.

A process that runs something on a GPU has a context there, of some hundred megabytes, and several
contexts take turns on it: one is enough, and a GPU in exclusive mode allows no second. So compiling
processes write libraries, and the one that runs loads them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import tvm
from tvm.target import Target

from relay_int8.machine.cuda_driver import Driver
from relay_int8.machine.kernel_clock import flushed_seconds, kernel_seconds
from relay_int8.runtime.tvm_runtime import load_gpu_runtime
from relay_int8.tuning.batch import Batch, Measured, Timing
from relay_int8.tuning.bench import compile_batch, last_line, measure_module
from relay_int8.tuning.device_fault import DeviceFault, fault_of
from relay_int8.tuning.problem import Problem, problem
from relay_int8.tuning.worker import requests
from schedules.task import Task


@dataclass(frozen=True, kw_only=True)
class Library:
    """A batch that is compiled: where its library is, "" if all are refused, and refusals."""

    batch: Batch
    path: str
    refusals: tuple[str, ...]


class GraphClock:
    """Times kernels by replayed CUDA graphs, as ``scripts/bench_gpu`` does.

    With ``flush`` memory of twice the L2 cache is written before each run.
    """

    @cached_property
    def _driver(self) -> Driver:
        return Driver()

    def __call__(
        self, launch: Callable[[], object], repeats: int, timing: Timing
    ) -> tuple[float, ...]:
        """Return the mean seconds of each repeat; DriverError if the driver refuses."""
        driver = self._driver
        if not timing.flush:
            least_s = timing.repeat_ms / 1e3
            return kernel_seconds(driver, "cuda", launch, repeats=repeats, least_s=least_s)
        size_bytes = 2 * driver.facts().l2_bytes
        with driver.memory(size_bytes) as memory:

            def _flush() -> None:
                driver.fill(memory, size_bytes)

            return flushed_seconds(driver, "cuda", launch, _flush, repeats=repeats)


def compile_libraries(connection: Connection) -> None:
    """Answer each batch with its :class:`Library`, or with why it does not compile.

    A library is gone with the request after it.
    """
    with tempfile.TemporaryDirectory() as folder:
        for number, batch in enumerate(requests(connection)):
            path = Path(folder) / f"{number}.so"
            (Path(folder) / f"{number - 1}.so").unlink(missing_ok=True)
            try:
                _, executable, refusals = compile_batch(batch)
                if executable is not None:
                    executable.export_library(str(path))
            except (RuntimeError, TypeError, ValueError) as error:
                connection.send(last_line(error))
                continue
            where = "" if executable is None else str(path)
            connection.send(Library(batch=batch, path=where, refusals=tuple(refusals)))


def run_libraries(connection: Connection) -> None:
    """Answer a :class:`Library` with None when it can run; the "run" behind it, with its results.

    That is one for each candidate, or a :class:`DeviceFault` in the place of one, which ends it.
    """
    load_gpu_runtime()
    library: Library | None = None
    module: Any = None
    problems: dict[str, Problem] = {}
    clock = GraphClock()
    for request in requests(connection):
        if request == "run":
            assert library is not None
            for answer in _answers(library, module, problems[library.batch.task.key], clock):
                connection.send(answer)
            continue
        library = request
        module = tvm.runtime.load_module(request.path) if request.path else None
        task = request.batch.task
        if task.key not in problems:
            problems = {task.key: _problem(task, request.batch)}  # one: they may be large
        connection.send(None)


def _problem(task: Task, batch: Batch) -> Problem:
    return problem(task.kernel(Target(dict(batch.target)), batch.templates))


def _answers(
    library: Library, module: Any, given: Problem, clock: GraphClock
) -> Iterator[Measured | DeviceFault]:
    try:
        yield from measure_module(library.batch, module, library.refusals, given, clock)
    except RuntimeError as error:
        fault = fault_of(str(error))
        if fault is None:
            raise
        yield fault
