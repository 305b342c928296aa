"""Calibration by several threads of this process, each with an image of its own.

Kernels of one image by all cores wait for each other, and all of them for Python between two
images: by a core an image neither is so. What is found of each image is merged in the order of the
dataset, exactly, so the table is that of one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass

from relay_int8.calibration.mapper import Mapper, OneByOne, Task, TaskResult
from relay_int8.calibration.observe import Runner
from relay_int8.data.dataset import Image
from relay_int8.runtime.tvm_runtime import keep_to, wanted_threads

MOST_THREADS = 4  # each of them has the activations of an image in memory
AHEAD = 2  # images under way for each thread: one runs, one waits


@dataclass(frozen=True)
class SideBySide(Mapper):
    """Runs tasks on so many threads, one image each.

    Parameters
    ----------
    runner
        May be called by several threads at a time.
    threads
        How many.
    cores
        That each of them computes with.
    """

    runner: Runner
    threads: int
    cores: int = 1

    def map(self, task: Callable[[], Task], images: Iterable[Image]) -> Iterator[TaskResult]:
        """Yield what the task finds of each image, in order."""
        waiting: deque[Future[TaskResult]] = deque()
        with ThreadPoolExecutor(self.threads, initializer=keep_to, initargs=(self.cores,)) as pool:
            try:
                for image in images:
                    # In this context: the first call compiles, and shares what it has compiled.
                    run = copy_context().run
                    waiting.append(pool.submit(run, task(), self.runner, [image]))
                    if len(waiting) >= AHEAD * self.threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(cancel_futures=True)


def by_all_cores(runner: Runner) -> Mapper:
    """Return how a runner is used by all cores that this process may have."""
    cores = wanted_threads()
    threads = min(cores, MOST_THREADS)
    return SideBySide(runner, threads, cores // threads) if threads > 1 else OneByOne(runner)
