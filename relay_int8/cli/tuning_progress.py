"""Tuning as it goes: a bar and the kernels with most to gain on a terminal, lines in a pipe."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.table import Table

if TYPE_CHECKING:
    from relay_int8 import TrialListener, TrialProgress

LINE_EVERY = 16
SHOWN = 12


class Standing:
    """The best of each kernel so far."""

    def __init__(self) -> None:
        self._latest: dict[str, TrialProgress] = {}
        self._default: dict[str, float] = {}
        self._best: dict[str, float] = {}
        self._trials: Counter[str] = Counter()

    def note(self, progress: TrialProgress) -> None:
        """Take in one trial."""
        key, measured = progress.task.key, progress.trial.measured
        self._latest[key] = progress
        self._trials[key] += 1
        if progress.trial.choices is None:
            self._default[key] = min(measured.best_s, self._default.get(key, float("inf")))
        self._best[key] = min(measured.best_s, self._best.get(key, float("inf")))

    def table(self) -> Table:
        """Return the kernels that take most of the network's time."""
        rows = Table("kernel", "calls", "default us", "best us", "trials", box=None)
        tasks = {key: progress.task for key, progress in self._latest.items()}
        heavy = sorted(self._best, key=lambda key: -tasks[key].occurrences * self._best[key])
        for key in heavy[:SHOWN]:
            task = tasks[key]
            times = (self._default.get(key, float("nan")), self._best[key])
            rows.add_row(
                task.title_of_layer,
                str(task.occurrences),
                *(f"{time * 1e6:.1f}" for time in times),
                str(self._trials[key]),
            )
        return rows


@contextmanager
def tuning_report() -> Iterator[TrialListener]:
    """Give a function that is called after every trial; all goes to standard error."""
    standing = Standing()
    if not sys.stderr.isatty():
        yield _lines(standing)
        return
    bar = Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    line = bar.add_task("defaults", total=None)
    with Live(bar, console=Console(stderr=True), refresh_per_second=4) as live:

        def _report(progress: TrialProgress) -> None:
            standing.note(progress)
            if bar.tasks[0].total is None:  # trials of an earlier run say nothing about speed
                bar.reset(line, total=progress.total, completed=progress.done)
            bar.update(
                line, description=summary(progress), completed=progress.done, total=progress.total
            )
            live.update(Group(bar, standing.table()))

        yield _report


def summary(progress: TrialProgress) -> str:
    """Return the network's time, untuned and tuned, as one line."""
    untuned_ms, tuned_ms = progress.untuned_s * 1e3, progress.tuned_s * 1e3
    return f"network {untuned_ms:.3f} -> {tuned_ms:.3f} ms"


def _lines(standing: Standing) -> TrialListener:
    started: list[tuple[float, int]] = []  # when the first trial was reported, and which it was

    def _report(progress: TrialProgress) -> None:
        standing.note(progress)
        started[:] = started or [(time.monotonic(), progress.done)]
        if progress.trial.measured.verdict == "wrong":
            print(f"wrong: {progress.trial.measured.reason}", file=sys.stderr, flush=True)
        if progress.done % LINE_EVERY == 0 and progress.trial.choices and not progress.trial.final:
            print(
                f"{progress.done} of {progress.total} trials, {summary(progress)}"
                f"{_time_left(progress, *started[0])}",
                file=sys.stderr,
                flush=True,
            )

    return _report


def _time_left(progress: TrialProgress, start_s: float, before: int) -> str:
    """Return how long the trials that are left will take, by those since ``start_s``."""
    if progress.done == before:
        return ""
    each_s = (time.monotonic() - start_s) / (progress.done - before)
    return f", {each_s * (progress.total - progress.done) / 60:.1f} min left"
