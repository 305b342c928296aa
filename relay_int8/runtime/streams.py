"""One network, several runs at a time: the most images a second, not the shortest time of one."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import TracebackType

from relay_int8.errors import ConfigError
from relay_int8.runtime.artifact import load, read_manifest
from relay_int8.runtime.module import Array, Inputs, Module
from relay_int8.runtime.tvm_runtime import set_threads

INPUTS_AHEAD = 2
"""Inputs that :meth:`Streams.map` holds for each stream."""


class Streams:
    """Copies of a network in one process, each run by one thread; results are those of one copy.

    Kernels of one run need not wait for each other's threads, so ``count`` streams give more images
    a second than ``count`` threads in one stream; each image takes longer. Build the artifact for
    one thread (``BuildOptions(threads=1)``), as that is what runs it. The copies share the weights.

    Use it as a context, or call :meth:`close`.

    Parameters
    ----------
    path
        Artifact that runs on the CPU.
    count
        Streams; usually the number of cores.

    Raises
    ------
    ArtifactError
        As :func:`relay_int8.load` does.
    ConfigError
        If ``count`` is less than 1, or the artifact runs on a GPU.

    Examples
    --------
    >>> with relay_int8.Streams("digits.ri8", 2) as streams:
    ...     digits = [out["logits"].argmax() for out in streams.map(images.test[:4, None])]
    >>> bool((digits == images.labels[:4]).all())
    True
    """

    def __init__(self, path: Path | str, count: int) -> None:
        if count < 1:
            raise ConfigError(f"{count} streams asked for; at least 1 is needed")
        if read_manifest(path).gpu:
            raise ConfigError(f"{path}: runs on a GPU; streams are for artifacts that run on a CPU")
        self.count = count
        self._path = path
        self._own = threading.local()
        self._loading = threading.Lock()
        self._first: Module | None = None
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="stream")
        together = threading.Barrier(count)  # so that every thread of the pool takes one
        for loaded in [self._pool.submit(self._load, together) for _ in range(count)]:
            loaded.result()

    def __enter__(self) -> Streams:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def submit(self, inputs: Inputs) -> Future[dict[str, Array]]:
        """Return what ``Module.run`` will return, as soon as a stream is free."""
        return self._pool.submit(lambda: self._module.run(inputs))

    def map(self, batches: Iterable[Inputs]) -> Iterator[dict[str, Array]]:
        """Yield the outputs of each of ``batches``, in their order; few are held at a time."""
        waiting = deque[Future[dict[str, Array]]]()
        for batch in batches:
            waiting.append(self.submit(batch))
            if len(waiting) > INPUTS_AHEAD * self.count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def time(self, inputs: Inputs, repeats: int = 10, *, warmup: int = 3) -> list[float]:
        """Return ``repeats`` times of the milliseconds from one result to the next.

        Each is the mean of ``count`` results, by the clock on the wall, so that streams which wait
        for each other do not count as if they ran together. Each stream runs ``repeats`` times,
        after ``warmup`` others.
        """
        together = threading.Barrier(self.count)

        def _ends() -> tuple[float, list[float]]:
            """Return when this stream's runs began, and when each ended."""
            together.wait()
            took = self._module.time(inputs, repeats, warmup=warmup)
            now = time.perf_counter() * 1e3
            ends = [now - sum(took[count:]) for count in range(1, len(took) + 1)]
            return now - sum(took), ends

        runs = [run.result() for run in [self._pool.submit(_ends) for _ in range(self.count)]]
        return intervals_ms(min(start for start, _ in runs), [ends for _, ends in runs])

    def close(self) -> None:
        """Finish what was submitted and end the streams."""
        self._pool.shutdown()

    @property
    def _module(self) -> Module:
        module: Module = self._own.module
        return module

    def _load(self, together: threading.Barrier) -> None:
        """Load this thread's copy. One after the other: the runtime reads its size once."""
        together.wait()
        with self._loading:
            if self._first is None:
                self._first = self._own.module = load(self._path, threads=1)
            else:
                self._own.module = self._first.twin()
                set_threads(1)


def intervals_ms(start_ms: float, ends_ms: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean time from one result to the next, of as many results as there are streams.

    ``ends_ms`` has a row for each stream; ``start_ms`` is when the first run of any began.
    """
    count = len(ends_ms)
    marks = [start_ms, *sorted(end for row in ends_ms for end in row)][::count]
    return [(after - before) / count for before, after in pairwise(marks)]
