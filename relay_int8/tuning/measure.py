"""Measure candidates in worker processes: all compile at once, one runs at a time."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

from tvm.target import Target

from relay_int8.host import clocks, cpu_name
from relay_int8.tuning.bench import CATALOG, Batch, Measured, Timing, serve
from relay_int8.tuning.task import Task
from relay_int8.tuning.worker import Worker, WorkerLostError
from schedules.peak import best_dot, peak
from schedules.space import Choices

ROUNDS = 9  # turns of each candidate in a comparison


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where is measured: the CPU's name, the clocks of its cores when asked, and its peak.

    ``peak_macs_s`` is what one core multiplies in a second at most, 0 where that is not known.
    """

    name: str
    clocks: str = ""
    peak_macs_s: float = 0.0


class Measurer(Protocol):
    """Something that finds out how fast candidates are, and whether they are right."""

    def describe(self) -> Place:
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


class LocalMeasurer:
    """Measures on this computer; use it as a context.

    Parameters
    ----------
    target
        As ``schedules.targets.target_config`` gives it.
    timing
        See :class:`Timing`.
    workers
        Processes that compile; while one runs a candidate, the others wait.
    start_s, compile_s, run_s
        Seconds that starting a process, compiling and running one candidate may take.
    catalog
        Module whose ``TEMPLATES`` are meant.
    """

    def __init__(
        self,
        target: Mapping[str, Any],
        *,
        timing: Timing | None = None,
        workers: int | None = None,
        start_s: float = 120.0,
        compile_s: float = 60.0,
        run_s: float = 20.0,
        catalog: str = CATALOG,
    ) -> None:
        self._target = dict(target)
        self._timing = timing or Timing()
        threads = str(self._target.get("num-cores", os.cpu_count() or 1))
        count = workers or os.cpu_count() or 1
        self._workers = [Worker(serve, {"TVM_NUM_THREADS": threads}) for _ in range(count)]
        self._start_s, self._compile_s, self._run_s = start_s, compile_s, run_s
        self._catalog = catalog

    def __enter__(self) -> LocalMeasurer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for worker in self._workers:
            worker.stop()

    def describe(self) -> Place:
        """Return what this computer is; takes half a second to find its peak."""
        target = Target(self._target)
        dot = best_dot(target)
        return Place(
            name=cpu_name(), clocks=clocks(), peak_macs_s=peak(dot, target) if dot else 0.0
        )

    def compare(self, task: Task, candidates: Sequence[Choices | None]) -> list[Measured]:
        """Return the seconds of each candidate round by round; all are lost if one crashes."""
        worker, batch = self._workers[0], self._batch(task, candidates, rounds=ROUNDS)
        worker.send(batch)
        failure = self._compiled(worker, batch)
        if failure is None:
            worker.send("run")
            try:
                wait_s = self._run_s * len(candidates)
                return [worker.receive(wait_s) for _ in candidates]
            except WorkerLostError as error:
                failure = Measured(verdict="lost", reason=f"comparing {error}")
        return [failure] * len(candidates)

    def measure(
        self, task: Task, candidates: Sequence[Choices | None], best_s: float = float("inf")
    ) -> list[Measured]:
        """Return one result for each candidate, in order."""
        whole = self._batch(task, candidates, best_s=best_s)
        count = len(self._workers)
        parts = [_part(whole, slice(i, None, count)) for i in range(count)]
        shares = self._measured([part for part in parts if part.candidates])
        return [shares[i % count][i // count] for i in range(len(candidates))]

    def defaults(self, tasks: Sequence[Task]) -> Iterator[Measured]:
        """Yield the result of each task's default schedule; several compile at once."""
        count = len(self._workers)
        for first in range(0, len(tasks), count):
            parts = [self._batch(task, [None]) for task in tasks[first : first + count]]
            yield from (share[0] for share in self._measured(parts))

    def _measured(self, parts: Sequence[Batch]) -> list[list[Measured]]:
        """Give each part to a worker of its own."""
        pairs = list(zip(self._workers, parts, strict=False))
        for worker, part in pairs:
            worker.send(part)
        # Nothing runs before all is compiled: a compiler on the other core spoils the times.
        compiled = [self._compiled(worker, part) for worker, part in pairs]
        return [
            self._finish(worker, part, failure)
            for (worker, part), failure in zip(pairs, compiled, strict=True)
        ]

    def _batch(self, task: Task, candidates: Sequence[Choices | None], **how: Any) -> Batch:
        return Batch(
            task=task,
            target=self._target,
            candidates=tuple(candidates),
            timing=self._timing,
            catalog=self._catalog,
            **how,
        )

    def _compiled(self, worker: Worker, part: Batch) -> Measured | None:
        """Wait until a part is compiled; return why it is not."""
        try:
            start_s = 0.0 if worker.has_answered else self._start_s
            failure = worker.receive(start_s + self._compile_s * len(part.candidates))
        except WorkerLostError as error:
            return Measured(verdict="lost", reason=f"compiling {error}")
        return None if failure is None else Measured(verdict="failed", reason=failure)

    def _finish(self, worker: Worker, part: Batch, failure: Measured | None) -> list[Measured]:
        """Return the results of a part that was to be compiled."""
        if failure is None:
            return self._run(worker, part)
        if len(part.candidates) == 1:
            return [failure]
        return self._apart(worker, part, range(len(part.candidates)))

    def _run(self, worker: Worker, part: Batch) -> list[Measured]:
        results: list[Measured] = []
        worker.send("run")
        try:
            for _ in part.candidates:
                results.append(worker.receive(self._run_s))
        except WorkerLostError as error:
            results.append(Measured(verdict="lost", reason=f"running {error}"))
        return results + self._apart(worker, part, range(len(results), len(part.candidates)))

    def _apart(self, worker: Worker, part: Batch, places: Sequence[int]) -> list[Measured]:
        """Measure candidates one by one: to find the culprit, and because of it no other."""
        found = []
        for place in places:
            single = _part(part, slice(place, place + 1))
            worker.send(single)
            found += self._finish(worker, single, self._compiled(worker, single))
        return found


def _part(batch: Batch, places: slice) -> Batch:
    return dataclasses.replace(batch, candidates=batch.candidates[places])
