"""Compile candidates, check their integers, time them; in the process that runs this."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Literal

import tvm
from tvm.target import Target

from relay_int8.tuning.problem import Problem, problem
from relay_int8.tuning.task import Task
from relay_int8.tuning.worker import requests
from schedules.space import Choices, Kernel, point
from schedules.template import ScheduleError, ScheduleTemplate

Verdict = Literal["ok", "wrong", "refused", "failed", "lost"]
CATALOG = "schedules.catalog"
FLUSH = "cache_flush_cpu_non_first_arg"


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How a candidate is timed: ``repeats`` times, each of at least ``repeat_ms``.

    With ``flush`` every run starts with empty caches, and each repeat is one run.
    """

    repeats: int = 12
    repeat_ms: int = 3
    flush: bool = False


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What became of a candidate.

    ok: right, with the mean seconds of each repeat; wrong: other outputs than the reference;
    refused: no such schedule; failed: does not compile; lost: it took its process with it, or hung.
    """

    verdict: Verdict
    seconds: tuple[float, ...] = ()
    reason: str = ""

    @property
    def best_s(self) -> float:
        """Seconds of its fastest repeat: whatever else ran meanwhile only adds time."""
        return min(self.seconds) if self.verdict == "ok" else float("inf")


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Candidates of one task: choices in its space, or None for the default schedule.

    ``catalog`` is the module whose ``TEMPLATES`` are meant.
    """

    task: Task
    target: Mapping[str, Any]
    candidates: tuple[Choices | None, ...]
    timing: Timing = Timing()
    catalog: str = CATALOG


Compiled = tuple[Kernel, Any, list[str]]


def compile_batch(batch: Batch) -> Compiled:
    """Return the kernel, a module with function "c<i>" for candidate i, and refusals ("" if none).

    One module for all: much of what a compilation costs does not depend on how many there are.
    """
    templates: Mapping[str, ScheduleTemplate] = importlib.import_module(batch.catalog).TEMPLATES
    kernel = batch.task.kernel(Target(dict(batch.target)), templates)
    functions, refusals = {}, []
    for index, choices in enumerate(batch.candidates):
        try:
            sch = kernel.default() if choices is None else point(kernel, choices).schedule
        except ScheduleError as error:
            refusals.append(str(error))
            continue
        refusals.append("")
        name = f"c{index}"
        functions[name] = sch.mod["main"].with_attr("global_symbol", name)
    library = tvm.compile(tvm.IRModule(functions), target=kernel.target) if functions else None
    return kernel, library, refusals


def measure_batch(batch: Batch, compiled: Compiled, given: Problem | None) -> Iterator[Measured]:
    """Yield what each candidate is worth, in order; ``given`` saves making the problem again."""
    kernel, library, refusals = compiled
    task_problem = given or problem(kernel)
    constants = [tvm.runtime.tensor(array) for array in task_problem.arguments]
    for index, refusal in enumerate(refusals):
        if refusal:
            yield Measured(verdict="refused", reason=refusal)
            continue
        try:
            yield verified_time(
                library.mod, f"c{index}", tvm.cpu(), constants, task_problem, batch.timing
            )
        except RuntimeError as error:
            yield Measured(verdict="failed", reason=_last_line(error))


def verified_time(
    module: Any,
    name: str,
    device: tvm.runtime.Device,
    constants: list[Any],
    given: Problem,
    timing: Timing,
) -> Measured:
    """Run function ``name`` of a module on ``device``, here or remote; time it if it is right.

    The integers are compared before the time is taken, and once more after all the runs.
    """
    y = tvm.runtime.tensor(given.canary, device)
    module[name](*constants, y)
    fault = given.fault(y.numpy())
    if fault:
        return Measured(verdict="wrong", reason=fault)
    timer: Callable[..., Any] = module.time_evaluator(
        name,
        device,
        number=1,
        repeat=timing.repeats,
        min_repeat_ms=0 if timing.flush else timing.repeat_ms,
        f_preproc=FLUSH if timing.flush else "",
    )
    seconds = tuple(float(value) for value in timer(*constants, y).results)
    fault = given.fault(y.numpy())
    if fault:
        return Measured(verdict="wrong", reason=f"after many runs: {fault}")
    return Measured(verdict="ok", seconds=seconds)


def serve(connection: Connection) -> None:
    """Answer the requests of :mod:`relay_int8.tuning.measure`.

    A batch is compiled and answered with None, or with why it does not compile; "run" measures it:
    one answer for each candidate.
    """
    batch: Batch | None = None
    compiled: Compiled | None = None
    problems: dict[str, Problem] = {}
    for request in requests(connection):
        if request == "run":
            assert batch is not None and compiled is not None
            kernel = compiled[0]
            if batch.task.key not in problems:
                problems = {batch.task.key: problem(kernel)}  # one: they may be large
            for measured in measure_batch(batch, compiled, problems[batch.task.key]):
                connection.send(measured)
            continue
        batch = request
        try:
            compiled = compile_batch(request)
            connection.send(None)
        except (RuntimeError, TypeError, ValueError) as error:
            connection.send(_last_line(error))


def _last_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
