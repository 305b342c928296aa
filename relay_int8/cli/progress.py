"""Progress: bars on a terminal, one line a stage in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.progress import TaskID as Bar

if TYPE_CHECKING:
    from relay_int8 import Progress as StageListener


@contextmanager
def progress_report() -> Iterator[StageListener]:
    """Give a function that library calls report their stages to; both go to standard error."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    columns = (TextColumn("{task.description:12}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        yield _bars(progress)


def _lines() -> StageListener:
    """Return a report that prints each stage with its seconds; one of many steps also first."""
    running: dict[str, float] = {}
    unbounded: list[str] = []  # which end when another one starts or ends
    ended: set[str] = set()

    def _end(stage: str) -> None:
        ended.add(stage)
        _line(f"{stage}: {time.perf_counter() - running.pop(stage):.1f} s")

    def _report(stage: str, done: int, total: int | None) -> None:
        if stage in ended:
            return
        while unbounded and unbounded[-1] != stage:
            _end(unbounded.pop())
        if stage not in running:
            running[stage] = time.perf_counter()
            if total is None:
                unbounded.append(stage)
            if total != 1:
                _line(stage if total is None else f"{stage} ({total})")
        if done == total:
            _end(stage)

    return _report


def _line(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _bars(progress: Progress) -> StageListener:
    """Return a report that moves one bar a stage."""
    bars: dict[str, Bar] = {}

    def _report(stage: str, done: int, total: int | None) -> None:
        if stage not in bars:
            bars[stage] = progress.add_task(stage, total=total)
        progress.update(bars[stage], completed=done, total=total)

    return _report
