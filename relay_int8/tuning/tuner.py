"""Spend trials on the kernels of a network, where it gains most."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tvm.target import Target

from relay_int8.tuning.cost_model import CostModel, unlikeness
from relay_int8.tuning.measurer import Measurer
from relay_int8.tuning.metaschedule_database import Database
from relay_int8.tuning.search import Search
from relay_int8.tuning.trial_log import Log, Trial
from relay_int8.tuning.winner import by_task, fastest_s, winner
from schedules.space import Choices
from schedules.task import Task

BATCH = 16
FINALISTS = 3
PROMISING = 0.99  # of the default's time: what is slower will hardly win
SIMILAR_KERNELS = 3  # similar kernels whose winners are tried


@dataclass(frozen=True, kw_only=True)
class TrialProgress:
    """Where tuning stands: after every trial."""

    task: Task
    trial: Trial
    done: int
    total: int
    untuned_s: float
    tuned_s: float


TrialListener = Callable[[TrialProgress], None]


class Tuner:
    """Tunes the kernels of one network.

    Parameters
    ----------
    tasks
        Its kernels.
    log
        Where trials go, and where those of an earlier run are.
    search, seed
        See :class:`relay_int8.tuning.search.Search`.
    warm
        Trials of other logs, with their tasks, that the model learns from first.
    report
        Called after every trial, once it is on disk.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        target: Target,
        measurer: Measurer,
        log: Log,
        *,
        search: str = "xgb",
        seed: int = 1,
        warm: Iterable[tuple[Task, Sequence[Trial]]] = (),
        report: TrialListener | None = None,
    ) -> None:
        self.tasks = {task.key: task for task in tasks}
        self._measurer, self._log, self._report = measurer, log, report
        self._model = CostModel(seed) if search == "xgb" else None
        self._searches = {
            key: Search(task.kernel(target), task, search, self._model, seed)
            for key, task in self.tasks.items()
        }
        self._trials: Mapping[str, list[Trial]] = defaultdict(list, by_task(log.trials))
        self._database = Database(log.folder, self.tasks, target, log.trials)
        self._total = 0
        self._warm = list(warm)
        if self._model:
            for task, trials in self._warm:
                self._model.learn(task, trials)
            for key, trials in self._trials.items():
                self._model.learn(self.tasks[key], trials)

    def run(self, trials: int, batch: int = BATCH, *, seconds: float = float("inf")) -> None:
        """Measure until the log holds ``trials`` candidates beside the defaults, then confirm.

        What was measured before counts. Spaces that are exhausted end it earlier, and ``seconds``
        if they are over.
        """
        self._total = trials
        end = time.monotonic() + seconds
        untimed = [
            task
            for task in self.tasks.values()
            if not any(trial.choices is None for trial in self._trials[task.key])
        ]
        for task, measured in zip(untimed, self._measurer.defaults(untimed), strict=True):
            self._note(task, [Trial(task=task.key, choices=None, measured=measured)])
        open_tasks = {key for key in self.tasks if fastest_s(self._trials[key]) < float("inf")}
        while open_tasks and self._done() < trials and time.monotonic() < end:
            key = max(sorted(open_tasks), key=self._promise)
            wanted = min(batch, trials - self._done())
            kin = self._kin(self.tasks[key]) if self._model else []
            candidates = self._searches[key].propose(self._trials[key], wanted, kin)
            if candidates:
                self._measure(self.tasks[key], candidates)
            else:
                open_tasks.remove(key)
        for task in self.tasks.values():
            self._confirm(task)

    def _kin(self, task: Task) -> list[Choices]:
        """Return what was fastest for the kernels most like ``task``, here and in other logs."""
        here = ((other, self._trials[key]) for key, other in self.tasks.items() if key != task.key)
        similar = []
        for other, trials in (*here, *self._warm):
            right = [trial for trial in trials if trial.choices and trial.measured.verdict == "ok"]
            if other.template == task.template and right:
                fastest = min(right, key=lambda trial: trial.measured.best_s)
                similar.append((unlikeness(task, other), fastest.choices or ()))
        return [
            choices for _, choices in sorted(similar, key=lambda pair: pair[0])[:SIMILAR_KERNELS]
        ]

    def _done(self) -> int:
        """Return how many different candidates were measured."""
        return sum(
            len({trial.choices for trial in trials if trial.choices is not None})
            for trials in self._trials.values()
        )

    def _promise(self, key: str) -> float:
        """Return the seconds a further trial may save: by the last gain, and by what is untried."""
        trials = self._trials[key]
        best, before = fastest_s(trials), fastest_s(trials[:-BATCH])
        slope = (before - best) / BATCH if before < float("inf") else 0.0
        return self.tasks[key].occurrences * (slope + best / len(trials)) / 2

    def _confirm(self, task: Task) -> None:
        """Let the fastest and the default take turns: one lucky run is no win."""
        trials = self._trials[task.key]
        default_s = fastest_s(trial for trial in trials if trial.choices is None)
        known = {trial.choices for trial in trials if trial.final}
        wrong = {trial.choices for trial in trials if trial.measured.verdict != "ok"}
        times = {
            trial.choices: trial.measured.best_s
            for trial in trials
            if trial.choices is not None and trial.measured.best_s < default_s * PROMISING
        }
        fastest = sorted(times, key=lambda choices: times[choices])[:FINALISTS]
        finalists = [choices for choices in fastest if choices not in known | wrong]
        if finalists:
            candidates = [None, *finalists]
            results = self._measurer.compare(task, candidates)
            final = [
                Trial(task=task.key, choices=choices, measured=measured, final=True)
                for choices, measured in zip(candidates, results, strict=True)
            ]
            self._note(task, final)

    def _measure(self, task: Task, candidates: Sequence[Choices | None]) -> None:
        best_s = fastest_s(self._trials[task.key])
        expected = self._expected(task, candidates)
        results = self._measurer.measure(task, candidates, best_s)
        trials = [
            Trial(task=task.key, choices=choices, measured=measured, predicted=share)
            for choices, measured, share in zip(candidates, results, expected, strict=True)
        ]
        self._note(task, trials)

    def _expected(self, task: Task, candidates: Sequence[Choices | None]) -> Sequence[float | None]:
        """Return what the model says of candidates before they are measured."""
        known = [choices for choices in candidates if choices]
        if self._model and len(known) == len(candidates):
            shares = self._model.predict(task, known)
            if shares is not None:
                return [round(float(share), 4) for share in shares]
        return [None] * len(candidates)

    def _note(self, task: Task, trials: Sequence[Trial]) -> None:
        """Put trials on disk, into the database and before the model."""
        for trial in trials:
            self._log.append(trial)
            self._trials[task.key].append(trial)
            self._database.append(trial)
            if self._report:
                self._report(self._progress(task, trial))
        if self._model:
            self._model.learn(task, self._trials[task.key])

    def _progress(self, task: Task, trial: Trial) -> TrialProgress:
        untuned = tuned = 0.0
        for key, other in self.tasks.items():
            trials = self._trials[key]
            default = fastest_s([trial for trial in trials if trial.choices is None])
            if default < float("inf"):
                untuned += other.occurrences * default
                tuned += other.occurrences * winner(trials).seconds
        return TrialProgress(
            task=task,
            trial=trial,
            done=self._done(),
            total=self._total,
            untuned_s=untuned,
            tuned_s=tuned,
        )
