"""Spend trials on the kernels of a network, where it gains most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tvm.target import Target

from relay_int8.tuning.cost_model import CostModel
from relay_int8.tuning.database import Database
from relay_int8.tuning.log import Log, Trial
from relay_int8.tuning.measure import Measurer
from relay_int8.tuning.search import Search
from relay_int8.tuning.task import Task
from relay_int8.tuning.winner import by_task, fastest_s, winner
from schedules.space import Choices

BATCH = 16
FINALISTS = 3


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where tuning stands: after every trial."""

    task: Task
    trial: Trial
    done: int
    total: int
    untuned_s: float
    tuned_s: float


Report = Callable[[Progress], None]


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
        report: Report | None = None,
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
        if self._model:
            for task, trials in warm:
                self._model.learn(task, trials)
            for key, trials in self._trials.items():
                self._model.learn(self.tasks[key], trials)

    def run(self, trials: int, batch: int = BATCH) -> None:
        """Measure until the log holds ``trials`` candidates beside the defaults, then confirm.

        What was measured before counts; spaces that are exhausted end it earlier.
        """
        self._total = trials
        for task in self.tasks.values():
            if not any(trial.choices is None for trial in self._trials[task.key]):
                self._measure(task, [None])
        open_tasks = {key for key in self.tasks if fastest_s(self._trials[key]) < float("inf")}
        while open_tasks and self._done() < trials:
            key = max(sorted(open_tasks), key=self._promise)
            wanted = min(batch, trials - self._done())
            candidates = self._searches[key].propose(self._trials[key], wanted)
            if candidates:
                self._measure(self.tasks[key], candidates)
            else:
                open_tasks.remove(key)
        for task in self.tasks.values():
            self._confirm(task)

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
        """Measure the fastest once more, side by side with the default: one lucky run is no win."""
        times: dict[Choices, list[float]] = defaultdict(list)
        for trial in self._trials[task.key]:
            if trial.choices is not None:
                times[trial.choices].append(trial.measured.best_s)
        right = [choices for choices, found in times.items() if max(found) < float("inf")]
        finalists = sorted(right, key=lambda choices: min(times[choices]))[:FINALISTS]
        unconfirmed = [choices for choices in finalists if len(times[choices]) == 1]
        if unconfirmed:
            self._measure(task, [None, *unconfirmed])

    def _measure(self, task: Task, candidates: Sequence[Choices | None]) -> None:
        results = self._measurer.measure(task, candidates)
        for choices, measured in zip(candidates, results, strict=True):
            trial = Trial(task=task.key, choices=choices, measured=measured)
            self._log.append(trial)
            self._trials[task.key].append(trial)
            self._database.append(trial)
            if self._report:
                self._report(self._progress(task, trial))
        if self._model:
            self._model.learn(task, self._trials[task.key])

    def _progress(self, task: Task, trial: Trial) -> Progress:
        untuned = tuned = 0.0
        for key, other in self.tasks.items():
            trials = self._trials[key]
            default = fastest_s([trial for trial in trials if trial.choices is None])
            if default < float("inf"):
                untuned += other.occurrences * default
                tuned += other.occurrences * winner(trials).seconds
        return Progress(
            task=task,
            trial=trial,
            done=self._done(),
            total=self._total,
            untuned_s=untuned,
            tuned_s=tuned,
        )
