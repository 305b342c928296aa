"""How long the stages of a call took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from relay_int8.calibration.observe import Progress


class StageClock:
    """Keeps the seconds of each stage, and tells ``progress`` that one starts and ends."""

    def __init__(self, progress: Progress | None) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time what stands in the ``with`` block; a block that raises is not kept."""
        start = time.perf_counter()
        if self._progress:
            self._progress(name, 0, 1)
        yield
        if self._progress:
            self._progress(name, 1, 1)
        self.seconds[name] = round(time.perf_counter() - start, 3)
