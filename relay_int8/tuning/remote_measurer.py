"""Measure candidates on other computers, several at once; one that is lost is waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from tvm.target import Target

from relay_int8.compiler.link import cross_linker
from relay_int8.errors import DeployError
from relay_int8.remote.address import Endpoint
from relay_int8.remote.device import Device
from relay_int8.tuning.batch import Batch, Measured
from relay_int8.tuning.device_fault import fault_of
from relay_int8.tuning.measurer import ROUNDS, MeasuringDevice, WorkerMeasurer, part_of
from relay_int8.tuning.remote_worker import READY, NoDevice, SessionLost, serve
from relay_int8.tuning.worker import Worker, WorkerLostError
from schedules.space import Choices
from schedules.task import Task

RETRY_S = 1.0
# The device ends a session after this process has given up on it, not before; a session on a GPU
# begins with starting the driver, which takes seconds where nothing else holds it.
MARGIN_S, GPU_MARGIN_S = 10.0, 60.0


class RemoteMeasurer(WorkerMeasurer):
    """Measures on devices that run ``relay-int8 serve``; use it as a context.

    A candidate that ends its session is tried once more, on whatever device is free then: if that
    one ends as well it is the candidate, else it was the device.

    Parameters
    ----------
    target
        As ``schedules.targets.target_config`` gives it.
    endpoint
        Where the devices are.
    devices
        How many to use at once.
    patience_s
        Seconds to wait for a device before giving up.
    how
        As for :class:`WorkerMeasurer`.

    Raises
    ------
    ArtifactError
        If the devices are another kind of computer, and no compiler here links for it.
    """

    def __init__(
        self,
        target: Mapping[str, Any],
        endpoint: Endpoint,
        *,
        devices: int = 1,
        patience_s: float = 600.0,
        **how: Any,
    ) -> None:
        cross_linker(Target(dict(target)))
        super().__init__(target, [Worker(partial(serve, endpoint)) for _ in range(devices)], **how)
        self._endpoint, self._patience_s = endpoint, patience_s
        self._seen_s = time.monotonic()  # when any worker last heard from a device

    def describe(self) -> MeasuringDevice:
        """Return what the first device is that is free; DeployError as :meth:`measure`."""
        worker = self._workers[0]
        worker.send(READY)
        try:
            worker.receive(self._start_s)
        except WorkerLostError as error:
            raise DeployError(
                f"{self._endpoint}: the process that compiles for it did not start: it {error}; "
                "try again when this computer is less busy"
            ) from error
        device: Device = self._await_device(worker, self._target)
        if self._target["kind"] == "cuda":
            return MeasuringDevice.of(device.gpus.devices[0])
        return MeasuringDevice(name=device.cpu, clocks=device.clocks)

    def measure(
        self, task: Task, candidates: Sequence[Choices | None], best_s: float = float("inf")
    ) -> list[Measured]:
        """Return one result for each candidate, in order.

        Raises
        ------
        DeployError
            If there is no device for ``patience_s``, or none that can run the target's code.
        """
        parts = self._dealt(self._batch(task, candidates, best_s=best_s))
        with ThreadPoolExecutor(len(parts)) as pool:
            return self._collected(list(pool.map(self._share, self._workers, parts)))

    def defaults(self, tasks: Sequence[Task]) -> Iterator[Measured]:
        """Yield the result of each task's default schedule; DeployError as :meth:`measure`."""
        count = len(self._workers)
        with ThreadPoolExecutor(count) as pool:
            for first in range(0, len(tasks), count):
                parts = [self._batch(task, [None]) for task in tasks[first : first + count]]
                for share in pool.map(self._share, self._workers, parts):
                    yield share[0]

    def compare(self, task: Task, candidates: Sequence[Choices | None]) -> list[Measured]:
        """Return the seconds of each candidate round by round, all on one device.

        One that ends its session makes all of them lost; DeployError as :meth:`measure`.
        """
        worker, batch = self._workers[0], self._batch(task, candidates, rounds=ROUNDS)
        failure = self._sent(worker, batch)
        if failure is None:
            results, lost = self._run(worker, batch, self._run_s * len(candidates))
            if lost is None:
                return results
            failure = self._lost(lost)
        return [failure] * len(candidates)

    def _share(self, worker: Worker, part: Batch) -> list[Measured]:
        """Return the results of one worker's part."""
        if not part.candidates:
            return []
        failure = self._sent(worker, part)
        if failure and len(part.candidates) == 1:
            return [failure]
        if failure:
            places = range(len(part.candidates))
            return [self._share(worker, part_of(part, slice(i, i + 1)))[0] for i in places]
        results, lost = self._run(worker, part)
        if lost is None:
            return results
        place = len(results)
        culprit = self._again(worker, part_of(part, slice(place, place + 1)), lost)
        return [*results, culprit, *self._share(worker, part_of(part, slice(place + 1, None)))]

    def _again(
        self, worker: Worker, single: Batch, lost: SessionLost | WorkerLostError
    ) -> Measured:
        """Try a candidate once more that lost its session; one that hung is not worth it."""
        if isinstance(lost, SessionLost):
            failure = self._sent(worker, single)
            if failure:
                return failure
            results, again = self._run(worker, single)
            if again is None:
                return results[0]
            lost = again
        return self._lost(lost)

    def _lost(self, lost: SessionLost | WorkerLostError) -> Measured:
        """Return what to note of a candidate; DeployError where its GPU cannot be used."""
        if isinstance(lost, WorkerLostError):
            return Measured(verdict="lost", reason=f"running {lost}")
        if fault_of(lost.reason):
            raise DeployError(
                f"{self._endpoint}: {lost.reason}; what was measured is in the log, go on with "
                "TuneOptions(resume=True)"
            )
        return Measured(verdict="lost", reason=lost.reason)

    def _sent(self, worker: Worker, part: Batch) -> Measured | None:
        """Have a part compiled; return why it is not."""
        worker.send(part)
        return self._compiled(worker, part)

    def _run(
        self, worker: Worker, part: Batch, answer_s: float | None = None
    ) -> tuple[list[Measured], SessionLost | WorkerLostError | None]:
        """Return the results there are, and what ended the run too early."""
        margin_s = GPU_MARGIN_S if part.on_gpu else MARGIN_S
        self._await_device(worker, margin_s + self._run_s * len(part.candidates))
        results: list[Measured] = []
        try:
            for _ in part.candidates:
                answer = worker.receive(answer_s or self._run_s)
                if isinstance(answer, SessionLost):
                    return results, answer
                results.append(answer)
                self._seen_s = time.monotonic()
        except WorkerLostError as error:
            return results, error
        return results, None

    def _await_device(self, worker: Worker, request: object) -> Any:
        """Return the answer to a request that needs a device, when ``worker`` has one.

        It is given up ``patience_s`` after any worker had one: another's device is not lost.
        """
        begin = time.monotonic()
        reason = "none of them was free"
        worker.send(request)
        while time.monotonic() < max(begin, self._seen_s) + self._patience_s:
            if not worker.answers(RETRY_S):
                continue
            try:
                answer = worker.receive(RETRY_S)
            except WorkerLostError as error:
                reason = str(error)
                break
            if not isinstance(answer, NoDevice):
                self._seen_s = time.monotonic()
                return answer
            reason = answer.reason
            if answer.final:
                raise DeployError(f"{self._endpoint}: {reason}")
            time.sleep(RETRY_S)
            worker.send(request)
        worker.stop()
        raise DeployError(
            f"{self._endpoint}: no device for {self._patience_s:g} s ({reason}); what was measured "
            "is in the log; look at the devices, then go on with "
            "TuneOptions(resume=True)"
        )
