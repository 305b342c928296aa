"""The interface of measurers, and the base class of those that use worker processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from relay_int8.machine.gpu import Gpu
from relay_int8.tuning.batch import CATALOG, Batch, Measured, Timing
from relay_int8.tuning.worker import Worker, WorkerLostError
from schedules.space import Choices
from schedules.task import Task

ROUNDS = 9  # turns of each candidate in a comparison


@dataclass(frozen=True, kw_only=True)
class MeasuringDevice:
    """The device that candidates run on: name of the CPU or GPU, clocks when asked, and peak.

    ``peak_macs_s`` is what one core multiplies in a second at most, 0 where that is not known;
    ``multiprocessors`` are a GPU's.
    """

    name: str
    clocks: str = ""
    peak_macs_s: float = 0.0
    multiprocessors: int = 0

    @classmethod
    def of(cls, gpu: Gpu) -> MeasuringDevice:
        """Return the description of a GPU."""
        return cls(name=gpu.name, multiprocessors=gpu.multiprocessors)


class Measurer(Protocol):
    """Measures how fast candidates are, and checks their results."""

    def describe(self) -> MeasuringDevice:
        """Return what the device is."""

    def measure(
        self, task: Task, candidates: Sequence[Choices | None], best_s: float = float("inf")
    ) -> list[Measured]:
        """Return one result for each candidate, in order, whatever a candidate does.

        Those much slower than ``best_s`` may be measured less thoroughly.
        """

    def defaults(self, tasks: Sequence[Task]) -> Iterator[Measured]:
        """Yield the result of each task's default schedule, in order."""

    def compare(self, task: Task, candidates: Sequence[Choices | None]) -> list[Measured]:
        """Return the seconds of each candidate round by round, the candidates taking turns."""


class WorkerMeasurer:
    """Gives batches to worker processes; use it as a context.

    Parameters
    ----------
    target
        As ``schedules.targets.target_config`` gives it.
    workers
        The processes.
    timing
        See :class:`Timing`.
    start_s, compile_s, run_s
        Seconds that starting a process, compiling and running one candidate may take.
    catalog
        Module whose ``TEMPLATES`` are meant.
    """

    def __init__(
        self,
        target: Mapping[str, Any],
        workers: Sequence[Worker],
        *,
        timing: Timing | None = None,
        start_s: float = 120.0,
        compile_s: float = 60.0,
        run_s: float = 20.0,
        catalog: str = CATALOG,
    ) -> None:
        self._target, self._workers, self._catalog = dict(target), list(workers), catalog
        self._timing = timing or Timing()
        self._start_s, self._compile_s, self._run_s = start_s, compile_s, run_s
        self._answers: dict[Worker, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.stop()

    def _batch(self, task: Task, candidates: Sequence[Choices | None], **how: Any) -> Batch:
        return Batch(
            task=task,
            target=self._target,
            candidates=tuple(candidates),
            timing=self._timing,
            catalog=self._catalog,
            **how,
        )

    def _dealt(self, whole: Batch) -> list[Batch]:
        """Deal the candidates of a batch to the workers; some may get none."""
        count = len(self._workers)
        return [part_of(whole, slice(i, None, count)) for i in range(count)]

    def _collected(self, shares: Sequence[Sequence[Measured]]) -> list[Measured]:
        """Return the results of dealt candidates in their first order."""
        count = len(self._workers)
        total = sum(map(len, shares))
        return [shares[i % count][i // count] for i in range(total)]

    def _compiled(self, worker: Worker, part: Batch) -> Measured | None:
        """Wait until a part is compiled that was sent; return why it is not.

        What else the worker answers is kept for whoever runs the part.
        """
        start_s = 0.0 if worker.has_answered else self._start_s
        try:
            answer = worker.receive(start_s + self._compile_s * len(part.candidates))
        except WorkerLostError as error:
            return Measured(verdict="lost", reason=f"compiling {error}")
        self._answers[worker] = answer
        return Measured(verdict="failed", reason=answer) if isinstance(answer, str) else None


def part_of(batch: Batch, places: slice) -> Batch:
    """Return the batch of some of its candidates."""
    return dataclasses.replace(batch, candidates=batch.candidates[places])
