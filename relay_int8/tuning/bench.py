"""Compile candidates, check their integers, time them; in the process that runs this."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any

import tvm
from tvm.target import Target

from relay_int8.tuning.batch import Batch, Measured, Timing
from relay_int8.tuning.device_fault import fault_of
from relay_int8.tuning.problem import Problem, problem
from relay_int8.tuning.worker import requests
from schedules.cuda.toolchain.compiler import device_code
from schedules.space import Kernel, point
from schedules.template import ScheduleError

FLUSH = "cache_flush_cpu_non_first_arg"
HOPELESS = 1.25  # times as slow as the best: further repeats would not change that


Compiled = tuple[Kernel, Any, list[str]]
Clock = Callable[[Callable[[], object], int, Timing], tuple[float, ...]]
"""``(launch, repeats, timing)`` -> the mean seconds of each repeat."""


def compile_batch(batch: Batch) -> Compiled:
    """Return the kernel, a module with function "c<i>" for candidate i, and refusals ("" if none).

    One module for all: much of what a compilation costs does not depend on how many there are.
    """
    kernel = batch.task.kernel(Target(dict(batch.target)), batch.templates)
    functions, refusals = {}, []
    for index, choices in enumerate(batch.candidates):
        try:
            sch = kernel.default() if choices is None else point(kernel, choices).schedule
        except ScheduleError as error:
            refusals.append(str(error))
            continue
        refusals.append("")
        name = f"c{index}"
        functions[name] = kernel.function(sch).with_attr("global_symbol", name)
    if not functions:
        return kernel, None, refusals
    with device_code(kernel.target):
        return kernel, tvm.compile(tvm.IRModule(functions), target=kernel.target), refusals


def measure_batch(batch: Batch, compiled: Compiled, given: Problem) -> Iterator[Measured]:
    """Yield what each candidate is worth, in order, on the problem of its task."""
    _, library, refusals = compiled
    return measure_module(batch, None if library is None else library.mod, refusals, given)


def measure_module(
    batch: Batch,
    module: Any,
    refusals: Sequence[str],
    given: Problem,
    clock: Clock | None = None,
) -> Iterator[Measured]:
    """Yield what each candidate of a batch is worth whose functions a module has.

    ``clock`` times them in place of TVM's evaluator.
    """
    device = tvm.cuda() if batch.on_gpu else tvm.cpu()
    constants = [tvm.runtime.tensor(array, device) for array in given.arguments]

    def _contender(name: str) -> Contender:
        return Contender(module, name, device, constants, given, batch.timing_of(given), clock)

    return measured(batch, refusals, _contender, RuntimeError)


class Contender:
    """A candidate where it runs, here or remote: ``module[name]`` on ``device``.

    Its integers are compared before any time is taken, and once more after all the runs.
    """

    def __init__(
        self,
        module: Any,
        name: str,
        device: tvm.runtime.Device,
        constants: list[Any],
        given: Problem,
        timing: Timing,
        clock: Clock | None = None,
    ) -> None:
        self._module, self._name, self._device, self._timing = module, name, device, timing
        self._clock = clock
        self._given, self._y = given, tvm.runtime.tensor(given.canary, device)
        self._arguments = [*constants, self._y]
        module[name](*self._arguments)
        self.fault = given.fault(self._y.numpy())

    def seconds(self, repeats: int) -> tuple[float, ...]:
        """Return the mean seconds of each of ``repeats`` repeats."""
        if self._clock is not None:
            run = self._module[self._name]
            return self._clock(lambda: run(*self._arguments), repeats, self._timing)
        timer: Callable[..., Any] = self._module.time_evaluator(
            self._name,
            self._device,
            number=1,
            repeat=repeats,
            min_repeat_ms=0 if self._timing.flush else self._timing.repeat_ms,
            f_preproc=FLUSH if self._timing.flush else "",
        )
        return tuple(float(value) for value in timer(*self._arguments).results)

    def verdict(self, seconds: Sequence[float]) -> Measured:
        """Return what came of it, after it was timed."""
        if self.fault:
            return Measured(verdict="wrong", reason=self.fault)
        fault = self._given.fault(self._y.numpy())
        if fault:
            return Measured(verdict="wrong", reason=f"after many runs: {fault}")
        return Measured(verdict="ok", seconds=tuple(seconds))


def measured(
    batch: Batch,
    refusals: Sequence[str],
    contender: Callable[[str], Contender],
    *failures: type[Exception],
) -> Iterator[Measured]:
    """Yield what each candidate is worth; ``failures`` are errors of its own.

    Of them, those that a GPU is to blame for are raised all the same.
    """
    if batch.rounds:
        contenders = [contender(f"c{index}") for index in range(len(refusals))]
        yield from _in_turns(contenders, batch)
        return
    for index, refusal in enumerate(refusals):
        if refusal:
            yield Measured(verdict="refused", reason=refusal)
            continue
        try:
            yield _alone(contender(f"c{index}"), batch)
        except failures as error:
            if fault_of(str(error)) and batch.on_gpu:
                raise
            yield Measured(verdict="failed", reason=last_line(error))


def _alone(contender: Contender, batch: Batch) -> Measured:
    seconds: tuple[float, ...] = ()
    if contender.fault is None:
        probes = min(batch.timing.probes, batch.timing.repeats)
        seconds = contender.seconds(probes)
        rest = batch.timing.repeats - probes
        if rest and min(seconds) < batch.best_s * HOPELESS:
            seconds += contender.seconds(rest)
    return contender.verdict(seconds)


def _in_turns(contenders: Sequence[Contender], batch: Batch) -> list[Measured]:
    rounds: list[list[float]] = [[] for _ in contenders]
    for _ in range(batch.rounds):
        for contender, seconds in zip(contenders, rounds, strict=True):
            if contender.fault is None:
                seconds.append(min(contender.seconds(batch.timing.probes)))
    return [
        contender.verdict(seconds) for contender, seconds in zip(contenders, rounds, strict=True)
    ]


def serve(connection: Connection) -> None:
    """Answer the requests of :mod:`relay_int8.tuning.local_measurer`.

    A batch is compiled and answered with None, or with why it does not compile; "run" measures it:
    one answer for each candidate.
    """
    batch: Batch | None = None
    compiled: Compiled | None = None
    problems: dict[str, Problem] = {}
    for request in requests(connection):
        if request == "run":
            assert batch is not None and compiled is not None
            for answer in measure_batch(batch, compiled, problems[batch.task.key]):
                connection.send(answer)
            continue
        batch = request
        try:
            compiled = compile_batch(request)
            if request.task.key not in problems:
                problems = {request.task.key: problem(compiled[0])}  # one: they may be large
            connection.send(None)
        except (RuntimeError, TypeError, ValueError) as error:
            connection.send(last_line(error))


def last_line(error: Exception) -> str:
    """Return the last line of an error's message: what happened, without TVM's stack."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
