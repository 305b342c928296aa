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
from relay_int8.runtime.cuda_runtime import CudaRuntime
from relay_int8.runtime.inputs import Inputs
from relay_int8.runtime.module import Array, Module
from relay_int8.runtime.tvm_runtime import MAX_THREADS, set_threads

INPUTS_AHEAD = 2
"""Inputs that :meth:`Streams.map` holds for each stream."""


class Streams:
    """Copies of a network in one process, each run by one thread; results are those of one copy.

    On a CPU, kernels of one run need not wait for each other's threads, so ``count`` streams give
    more images a second than ``count`` threads in one stream; each image takes longer. Build the
    artifact for one thread (``BuildOptions(threads=1)``), as that is what runs it. The copies
    share the weights.

    On a GPU each copy has a stream of CUDA and memory of its own, so that kernels too small to fill
    the GPU run beside each other, and copies from and to the host beside kernels. Its kernels must
    be a CUDA graph: launched one by one, they take memory from a pool that all copies share.

    Use it as a context, or call :meth:`close`.

    Parameters
    ----------
    path
        Artifact.
    count
        Streams; on a CPU usually the number of cores.
    gpu
        For an artifact that is built for GPUs: the number of the one it runs on.

    Raises
    ------
    ArtifactError
        As :func:`relay_int8.load` does.
    ConfigError
        If ``count`` is less than 1 or too large, or the artifact runs on a GPU without a CUDA
        graph; or the system gives no such number of threads.

    Examples
    --------
    >>> with relay_int8.Streams("digits.ri8", 2) as streams:
    ...     digits = [out["logits"].argmax() for out in streams.map(images.test[:4, None])]
    >>> bool((digits == images.labels[:4]).all())
    True
    """

    def __init__(self, path: Path | str, count: int, *, gpu: int = 0) -> None:
        if not isinstance(count, int) or not 1 <= count <= MAX_THREADS:
            raise ConfigError(f"{count!r} streams asked for; a number from 1 to {MAX_THREADS}")
        manifest = read_manifest(path)
        self._on_gpu = manifest.gpu is not None
        if self._on_gpu and not manifest.gpu_code.get("graph", {}).get("captured"):
            raise ConfigError(
                f"{path}: launches its kernels one by one, and streams of a GPU need a CUDA graph; "
                "build it with BuildOptions(cuda_graphs=True)"
            )
        self.count = count
        self._is_closed = False
        self._gpu = gpu
        self._path = path
        self._own = threading.local()
        self._handles: list[int] = []  # of CUDA's streams
        self._loading = threading.Lock()
        self._first: Module | None = None
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="stream")
        together = threading.Barrier(count)  # so that every thread of the pool takes one
        try:
            for loaded in [self._pool.submit(self._load, together) for _ in range(count)]:
                loaded.result()
        except RuntimeError as error:  # those that wait for each other would wait forever
            together.abort()
            raise ConfigError(
                f"{count} streams asked for, and the system starts no more threads ({error}); take "
                "fewer"
            ) from error

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
        """Return what ``Module.run`` will return, as soon as a stream is free.

        Raises
        ------
        ConfigError
            If the streams are closed.
        """
        self._require_open()
        return self._pool.submit(lambda: self._module.run(inputs, stream=self._stream))

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
        self._require_open()
        together = threading.Barrier(self.count)

        def _ends() -> tuple[float, list[float]]:
            """Return when this stream's runs began, and when each ended."""
            together.wait()
            took = self._module.time(inputs, repeats, warmup=warmup, stream=self._stream)
            now = time.perf_counter() * 1e3
            ends = [now - sum(took[count:]) for count in range(1, len(took) + 1)]
            return now - sum(took), ends

        runs = [run.result() for run in [self._pool.submit(_ends) for _ in range(self.count)]]
        return intervals_ms(min(start for start, _ in runs), [ends for _, ends in runs])

    def close(self) -> None:
        """Finish what was submitted and end the streams."""
        self._is_closed = True
        self._pool.shutdown()
        while self._handles:
            CudaRuntime(self._gpu).destroy_stream(self._handles.pop())

    def _require_open(self) -> None:
        if self._is_closed:
            raise ConfigError(f"{self._path}: its streams are closed; make new ones")

    @property
    def _module(self) -> Module:
        module: Module = self._own.module
        return module

    @property
    def _stream(self) -> int | None:
        stream: int | None = self._own.stream
        return stream

    def _load(self, together: threading.Barrier) -> None:
        """Load this thread's copy. One after the other: the runtime reads its size once."""
        together.wait()
        with self._loading:
            self._own.module = self._copy()
            self._own.stream = None
            if self._on_gpu:
                self._own.stream = CudaRuntime(self._gpu).stream()
                self._handles.append(self._own.stream)

    def _copy(self) -> Module:
        """Return one more copy of the network; on a CPU it has the weights of the first."""
        if self._on_gpu:
            return load(self._path, gpu=self._gpu)
        if self._first is None:
            self._first = load(self._path, threads=1)
            return self._first
        set_threads(1)
        return self._first.twin()


def intervals_ms(start_ms: float, ends_ms: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean time from one result to the next, of as many results as there are streams.

    ``ends_ms`` has a row for each stream; ``start_ms`` is when the first run of any began.
    """
    count = len(ends_ms)
    marks = [start_ms, *sorted(end for row in ends_ms for end in row)][::count]
    return [(after - before) / count for before, after in pairwise(marks)]
