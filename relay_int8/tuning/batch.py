"""What is asked of a process that measures candidates, and what it answers."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from relay_int8.argument_types import checked
from relay_int8.tuning.problem import Problem
from schedules import catalog
from schedules.space import Choices
from schedules.task import Task
from schedules.template import ScheduleTemplate

Verdict = Literal["ok", "wrong", "refused", "failed", "lost"]
CATALOG = catalog.__name__
COLD_BYTES = 1 << 18  # of constants; where a kernel has more, a network reads them from memory


@checked
@dataclass(frozen=True, kw_only=True)
class Timing:
    """How a candidate is timed: ``repeats`` times, each of at least ``repeat_ms``.

    A candidate whose first ``probes`` repeats are all ``HOPELESS`` gets no more of them. With
    ``flush`` every run starts with empty caches, and each repeat is one run.
    """

    repeats: int = 12
    repeat_ms: int = 3
    probes: int = 3
    flush: bool = False


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What became of a candidate.

    ok: right, with the mean seconds of each repeat; wrong: other outputs than the reference;
    refused: no such schedule; failed: does not compile; lost: it took its process with it, or hung.
    """

    verdict: Verdict
    seconds: tuple[float, ...] = ()
    reason: str = ""

    @property
    def best_s(self) -> float:
        """Seconds of its fastest repeat: whatever else ran meanwhile only adds time."""
        return min(self.seconds) if self.verdict == "ok" else float("inf")


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Candidates of one task: choices in its space, or None for the default schedule.

    Parameters
    ----------
    best_s
        Seconds of the fastest that is known.
    rounds
        0 to time one candidate after the other; else they take turns so many times, and the seconds
        of each are those of its rounds: what differs between candidates is then not the moment.
    catalog
        The module whose ``TEMPLATES`` are meant.
    """

    task: Task
    target: Mapping[str, Any]
    candidates: tuple[Choices | None, ...]
    timing: Timing = Timing()
    best_s: float = float("inf")
    rounds: int = 0
    catalog: str = CATALOG

    @property
    def on_gpu(self) -> bool:
        """Whether candidates run on a GPU."""
        return bool(self.target["kind"] == "cuda")

    @property
    def templates(self) -> Mapping[str, ScheduleTemplate]:
        """The templates that are meant, by name."""
        templates: Mapping[str, ScheduleTemplate] = importlib.import_module(self.catalog).TEMPLATES
        return templates

    def timing_of(self, given: Problem) -> Timing:
        """Return how candidates are timed on a problem: those with large weights on cold ones.

        In a network the weights of other layers have been in the caches since, and how well a
        schedule hides that is a part of its time. GPUs' caches are emptied only if asked.
        """
        is_cold = not self.on_gpu and given.constant_bytes >= COLD_BYTES
        return replace(self.timing, flush=self.timing.flush or is_cold)
