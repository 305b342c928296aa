"""How long the stages of a call took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from relay_int8.calibration.observe import Progress


class StageClock:
    """Keeps the seconds of each stage, and tells ``progress`` that one starts and ends.

    :meth:`step` does so for what a stage itself reports, as calibration its two passes.
    """

    def __init__(self, progress: Progress | None) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress
        self._started: dict[str, float] = {}

    def step(self, name: str, done: int, total: int | None) -> None:
        """Pass on a report of progress; the time from its first to its last one is kept."""
        now = time.perf_counter()
        self.seconds[name] = round(now - self._started.setdefault(name, now), 3)
        if self._progress:
            self._progress(name, done, total)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time the body of the ``with`` block; a block that raises is not kept."""
        start = time.perf_counter()
        if self._progress:
            self._progress(name, 0, 1)
        yield
        if self._progress:
            self._progress(name, 1, 1)
        self.seconds[name] = round(time.perf_counter() - start, 3)
