"""One network, several runs at a time: the most images a second, not the shortest time of one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from relay_int8.artifact import load, read_manifest
from relay_int8.errors import ConfigError
from relay_int8.module import Array, Inputs, Module

AHEAD = 2
"""Inputs that :meth:`Streams.map` holds for each stream."""


class Streams:
    """Copies of a network in one process, each run by one thread; results are those of one copy.

    Kernels of one run need not wait for each other's threads, so ``count`` streams give more images
    a second than ``count`` threads in one stream; each image takes longer. Build the artifact for
    one thread (``compile_model(..., threads=1)``), as that is what runs it.

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
            if len(waiting) > AHEAD * self.count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def time(self, inputs: Inputs, repeats: int = 10, *, warmup: int = 3) -> list[float]:
        """Return the milliseconds from one result to the next, of ``repeats`` runs of each stream.

        All streams run all the time; ``warmup`` runs of each come before.
        """
        runs = [
            self._pool.submit(lambda: self._module.time(inputs, repeats, warmup=warmup))
            for _ in range(self.count)
        ]
        return [took / self.count for run in runs for took in run.result()]

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
            self._own.module = load(self._path, threads=1)
