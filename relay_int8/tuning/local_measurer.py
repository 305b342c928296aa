"""Measure candidates in worker processes: all compile at once, one runs at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tvm.target import Target

from relay_int8.errors import DeployError
from relay_int8.machine.gpu import installed_gpus
from relay_int8.machine.host import clocks, cpu_name
from relay_int8.tuning.batch import Batch, Measured
from relay_int8.tuning.bench import serve
from relay_int8.tuning.device_fault import DeviceFault
from relay_int8.tuning.gpu_worker import compile_libraries, run_libraries
from relay_int8.tuning.measurer import ROUNDS, MeasuringDevice, WorkerMeasurer, part_of
from relay_int8.tuning.worker import Worker, WorkerLostError
from schedules.cores import usable_cores
from schedules.peak import best_dot, peak
from schedules.space import Choices
from schedules.task import Task


class LocalMeasurer(WorkerMeasurer):
    """Measures on this computer, or on its first GPU; use it as a context.

    Parameters
    ----------
    target
        As ``schedules.targets.target_config`` gives it.
    workers
        Processes that compile, one a core if None; while one runs a candidate, the others wait. A
        GPU's candidates all run in one more process.
    how
        As for :class:`WorkerMeasurer`.
    """

    def __init__(
        self, target: Mapping[str, Any], *, workers: int | None = None, **how: Any
    ) -> None:
        cores = usable_cores()
        environment = {"TVM_NUM_THREADS": str(target.get("num-cores", cores))}
        on_gpu = target["kind"] == "cuda"
        serving = compile_libraries if on_gpu else serve
        processes = [Worker(serving, environment) for _ in range(workers or cores)]
        super().__init__(target, processes, **how)
        self._runner = Worker(run_libraries, environment) if on_gpu else None

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if self._runner is not None:
            self._runner.stop()

    def describe(self) -> MeasuringDevice:
        """Return what this computer is; takes half a second to find its peak."""
        target = Target(self._target)
        if target.kind.name == "cuda":
            return MeasuringDevice.of(installed_gpus().devices[0])
        dot = best_dot(target)
        return MeasuringDevice(
            name=cpu_name(), clocks=clocks(), peak_macs_s=peak(dot, target) if dot else 0.0
        )

    def compare(self, task: Task, candidates: Sequence[Choices | None]) -> list[Measured]:
        """Return the seconds of each candidate round by round; all are lost if one crashes."""
        worker, batch = self._workers[0], self._batch(task, candidates, rounds=ROUNDS)
        worker.send(batch)
        failure = self._compiled(worker, batch)
        if failure is None:
            try:
                runner = self._started(worker)
                wait_s = self._run_s * len(candidates)
                return [self._result(runner, wait_s) for _ in candidates]
            except WorkerLostError as error:
                failure = Measured(verdict="lost", reason=f"comparing {error}")
        return [failure] * len(candidates)

    def measure(
        self, task: Task, candidates: Sequence[Choices | None], best_s: float = float("inf")
    ) -> list[Measured]:
        """Return one result for each candidate, in order."""
        parts = self._dealt(self._batch(task, candidates, best_s=best_s))
        return self._collected(self._measured([part for part in parts if part.candidates]))

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

    def _finish(self, worker: Worker, part: Batch, failure: Measured | None) -> list[Measured]:
        """Return the results of a part that was to be compiled."""
        if failure is None:
            return self._run(worker, part)
        if len(part.candidates) == 1:
            return [failure]
        return self._apart(worker, part, range(len(part.candidates)))

    def _run(self, worker: Worker, part: Batch) -> list[Measured]:
        results: list[Measured] = []
        try:
            runner = self._started(worker)
            for _ in part.candidates:
                results.append(self._result(runner, self._run_s))
                if results[-1].verdict == "failed" and part.on_gpu:
                    runner.stop()  # after an error its GPU context is of no use
                    break
        except WorkerLostError as error:
            results.append(Measured(verdict="lost", reason=f"running {error}"))
        return results + self._apart(worker, part, range(len(results), len(part.candidates)))

    def _started(self, worker: Worker) -> Worker:
        """Begin to run what ``worker`` has compiled; return the process that does."""
        runner = self._runner or worker
        if runner is not worker:
            start_s = 0.0 if runner.has_answered else self._start_s
            runner.send(self._answers[worker])
            runner.receive(start_s + self._compile_s)
        runner.send("run")
        return runner

    def _result(self, runner: Worker, wait_s: float) -> Measured:
        """Return the next result.

        Raises
        ------
        DeployError
            If the GPU cannot be used.
        """
        answer: Measured | DeviceFault = runner.receive(wait_s)
        if isinstance(answer, DeviceFault):
            runner.stop()
            raise DeployError(
                f"this computer's GPU: {answer.reason}; what was measured is in the log, go on "
                "with TuneOptions(resume=True)"
            )
        return answer

    def _apart(self, worker: Worker, part: Batch, places: Sequence[int]) -> list[Measured]:
        """Measure candidates one by one: to find the culprit, and because of it no other."""
        measured = []
        for place in places:
            single = part_of(part, slice(place, place + 1))
            worker.send(single)
            measured += self._finish(worker, single, self._compiled(worker, single))
        return measured
