"""How long a run takes: called again and again for the time of a turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Turn:
    """How long one run took in one turn.

    ``cpu_s`` counts only while the process had a core. With one thread it equals ``wall_s`` unless
    other processes took the core away.
    """

    wall_s: float
    cpu_s: float


class Stopwatch:
    """Counts the seconds of a turn from the moment it is made."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    @property
    def wall_s(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self._wall

    def stop(self, runs: int) -> Turn:
        """Return the seconds of one of ``runs``."""
        return Turn(wall_s=self.wall_s / runs, cpu_s=(time.process_time() - self._cpu) / runs)


def run_for(seconds: float, run: Callable[[], object]) -> Turn:
    """Call ``run`` until ``seconds`` are over."""
    runs, watch = 0, Stopwatch()
    while watch.wall_s < seconds or not runs:
        run()
        runs += 1
    return watch.stop(runs)


def run_together(seconds: float, runs: Sequence[Callable[[], object]]) -> Turn:
    """Call each of ``runs`` in a thread of its own until ``seconds`` are over.

    The turn says how much time passes from one result to the next, not how long one run takes.
    """
    watch = Stopwatch()

    def _repeat(run: Callable[[], object]) -> int:
        done = 0
        while watch.wall_s < seconds or not done:
            run()
            done += 1
        return done

    with ThreadPoolExecutor(len(runs)) as pool:
        counts = list(pool.map(_repeat, runs))
    return watch.stop(sum(counts))
