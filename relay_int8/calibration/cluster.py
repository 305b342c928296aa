"""Calibration by many processes, on one computer or several, with Dask.

The images go out in shards; what is found of each comes back and is merged in the order of the
dataset. Nothing but exact merging happens to it, so the table is that of one process, bit for bit,
also where a worker is lost: Dask runs its shards again elsewhere.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from relay_int8.calibration.mapper import Mapper, Task, TaskResult
from relay_int8.calibration.observe import Runner
from relay_int8.data.dataset import Image
from relay_int8.errors import CalibrationError, ConfigError, Int8Error
from schedules.cores import usable_cores

try:
    from distributed import Client, LocalCluster, WorkerPlugin, get_worker
    from distributed.scheduler import KilledWorker
except ImportError as error:  # an extra: a single process does without
    raise ConfigError(
        f"Dask is not installed ({error}); pip install 'relay-int8[cluster]', or calibrate "
        "without workers and scheduler"
    ) from error

PLUGIN = "relay-int8-calibration"
SHARD_BYTES = 2**21  # size of the images of a task: Dask warns of tasks above 10 MiB
SHARDS_AHEAD = 2  # shards under way for each worker: one runs, one waits


class DaskMapper(Mapper):
    """Runs tasks on the workers of a Dask scheduler.

    Parameters
    ----------
    client
        Connected to the scheduler.
    recipe
        Makes the network; pickled, and called once by each worker.
    shard_bytes
        How much of images makes a shard.
    """

    def __init__(
        self, client: Client, recipe: Callable[[], Runner], shard_bytes: int = SHARD_BYTES
    ) -> None:
        self._client = client
        self._shard_bytes = shard_bytes
        client.register_plugin(_Network(recipe), name=PLUGIN)

    def map(self, task: Callable[[], Task], images: Iterable[Image]) -> Iterator[TaskResult]:
        """Yield what the task finds of each shard, in order.

        Raises
        ------
        CalibrationError
            Workers die of a shard again and again, or there is none.
        """
        waiting: deque[Any] = deque()
        for shard in shards(images, self._shard_bytes):
            waiting.append(self._client.submit(_run, task(), shard, pure=False))
            if len(waiting) >= SHARDS_AHEAD * max(1, len(self._client.nthreads())):
                yield self._result(waiting.popleft())
        while waiting:
            yield self._result(waiting.popleft())

    def _result(self, future: Any) -> TaskResult:
        try:
            result: TaskResult = future.result()
        except Int8Error:
            raise
        except KilledWorker as error:
            raise CalibrationError(
                f"workers died again and again of the same images ({error}); look at their logs, "
                "and at their memory"
            ) from error
        return result


def shards(images: Iterable[Image], shard_bytes: int = SHARD_BYTES) -> Iterator[list[Image]]:
    """Yield the images in lists of at least so many bytes, in order."""
    shard: list[Image] = []
    size = 0
    for image in images:
        shard.append(image)
        size += sum(array.nbytes for array in image.values())
        if size >= shard_bytes:
            yield shard
            shard, size = [], 0
    if shard:
        yield shard


@contextmanager
def connected(
    scheduler: str | None, workers: int | None, *, timeout: float = 30.0
) -> Iterator[Client]:
    """Give a client of a scheduler, or of a local cluster of so many processes.

    Raises
    ------
    ConfigError
        Nothing answers at the address.
    """
    if scheduler is not None:
        try:
            client = Client(scheduler, timeout=timeout, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ConfigError(
                f"no Dask scheduler answers at {scheduler} ({error}); start one with dask "
                "scheduler and workers with dask worker"
            ) from error
        with client:
            yield client
        return
    count = workers or 1
    threads = max(1, usable_cores() // count)
    with (
        LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",  # another cluster may have the usual port
            memory_limit=None,
            silence_logs=logging.CRITICAL,
            env={"TVM_NUM_THREADS": str(threads)},
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


class _Network(WorkerPlugin):  # type: ignore[misc]
    """A worker's own network, made when its first shard comes."""

    def __init__(self, recipe: Callable[[], Runner]) -> None:
        self._recipe = recipe
        self._runner: Runner | None = None

    def setup(self, worker: Any) -> None:
        """Take up work on a worker."""
        self._lock = threading.Lock()

    def run(self, task: Task, images: Sequence[Image]) -> TaskResult:
        """Run a task; one at a time, whatever threads the worker has."""
        with self._lock:
            self._runner = self._runner or self._recipe()
            return task(self._runner, images)


def _run(task: Task, images: Sequence[Image]) -> TaskResult:
    network: _Network = get_worker().plugins[PLUGIN]
    return network.run(task, images)
