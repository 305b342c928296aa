"""Which candidate of a kernel its trials speak for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from relay_int8.tuning.log import Trial
from schedules.space import Choices

LEAST_GAIN = 0.02  # of the default's time; less may be chance, and the default is well tested


@dataclass(frozen=True, kw_only=True)
class Winner:
    """``choices`` is None for the default schedule; ``default_s`` is the default's time."""

    choices: Choices | None
    seconds: float
    default_s: float


def by_task(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    """Return trials by the key of their task, in their order."""
    found = defaultdict(list)
    for trial in trials:
        found[trial.task].append(trial)
    return dict(found)


def fastest_s(trials: Iterable[Trial]) -> float:
    """Return the seconds of the fastest right candidate; infinite if there is none."""
    return min((trial.measured.best_s for trial in trials), default=float("inf"))


def winner(trials: Sequence[Trial]) -> Winner:
    """Return the winner among the trials of one kernel.

    A candidate that was wrong once is out. Where candidates were confirmed by a second trial, one
    of them wins. The default wins unless another is ``LEAST_GAIN`` faster.
    """
    groups: dict[Choices | None, list[Trial]] = defaultdict(list)
    for trial in trials:
        groups[trial.choices].append(trial)
    right = {
        choices: group
        for choices, group in groups.items()
        if all(trial.measured.verdict == "ok" for trial in group)
    }
    if any(len(group) > 1 for choices, group in right.items() if choices is not None):
        right = {choices: group for choices, group in right.items() if len(group) > 1}
    times = {choices: fastest_s(group) for choices, group in right.items()}
    default_s = times.get(None, float("inf"))
    if times:
        best = min(times, key=lambda choices: times[choices])
        if times[best] < default_s * (1 - LEAST_GAIN):
            return Winner(choices=best, seconds=times[best], default_s=default_s)
    return Winner(choices=None, seconds=default_s, default_s=default_s)
