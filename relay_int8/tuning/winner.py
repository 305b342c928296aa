"""The winner among a kernel's trials: its default, or a right candidate that is faster."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from relay_int8.tuning.trial_log import Trial
from schedules.space import Choices

LEAST_GAIN = 0.02  # of the default's time; less may be chance, and the default is well tested
LEAST_UNCONFIRMED = 0.05  # where tuning was stopped before the two took turns


@dataclass(frozen=True, kw_only=True)
class Winner:
    """``choices`` is None for the default schedule; ``default_s`` is the default's time."""

    choices: Choices | None
    seconds: float
    default_s: float


def by_task(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    """Return trials by the key of their task, in their order."""
    by_key = defaultdict(list)
    for trial in trials:
        by_key[trial.task].append(trial)
    return dict(by_key)


def fastest_s(trials: Iterable[Trial]) -> float:
    """Return the seconds of the fastest right candidate; infinite if there is none."""
    return min((trial.measured.best_s for trial in trials), default=float("inf"))


def winner(trials: Sequence[Trial]) -> Winner:
    """Return the winner among the trials of one kernel.

    A candidate that was not right once is out. The time of one that was compared with the default
    is the default's times the median share of it over the rounds; where there was a comparison,
    only such a one can win. The default wins unless another is ``LEAST_GAIN`` faster.
    """
    default_s = fastest_s(trial for trial in trials if trial.choices is None)
    out = {trial.choices for trial in trials if trial.measured.verdict != "ok"}
    shares, least = compared(trials), LEAST_GAIN
    if not any(trial.final for trial in trials):
        least = LEAST_UNCONFIRMED
        shares = {
            trial.choices: trial.measured.best_s / default_s
            for trial in trials
            if trial.choices is not None
        }
    right = {choices: share for choices, share in shares.items() if choices not in out}
    if right and default_s < float("inf"):
        best = min(right, key=lambda choices: right[choices])
        if right[best] < 1 - least:
            return Winner(choices=best, seconds=default_s * right[best], default_s=default_s)
    return Winner(choices=None, seconds=default_s, default_s=default_s)


def compared(trials: Iterable[Trial]) -> dict[Choices, float]:
    """Return the share of the default's time that each candidate took in its comparison."""
    shares: dict[Choices, float] = {}
    default: tuple[float, ...] = ()
    for trial in trials:
        if trial.final and trial.choices is None:
            default = trial.measured.seconds
        elif trial.final and trial.choices is not None and len(default) > 0:
            # Equally many rounds, or none where the candidate was not right.
            rounds = zip(trial.measured.seconds, default, strict=False)
            ratios = [mine / theirs for mine, theirs in rounds]
            shares[trial.choices] = median(ratios or [float("inf")])
    return shares
