"""A model of how fast the points of a space are, learned from those that were measured.

Features are the choices and the sizes in the specification, as logarithms: what one shape taught is
of use for the next. There is one model for each template and number of features (where one shape is
offered a tile another may be offered a number); its answer is a share of the fastest candidate of
the same kernel.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import log2
from typing import Any

import numpy as np

from relay_int8.errors import ConfigError
from relay_int8.tuning.trial_log import Trial
from schedules.space import Choices
from schedules.task import Task

LEAST_SAMPLES = 6  # samples of a template without which nothing is predicted
ROUNDS = 60
PARAMETERS = {"max_depth": 6, "eta": 0.2, "min_child_weight": 0.5, "nthread": 1, "verbosity": 0}


class CostModel:
    """Gradient-boosted trees (XGBoost) over choices and sizes."""

    def __init__(self, seed: int) -> None:
        try:
            import xgboost
        except ImportError as error:
            raise ConfigError(
                "the cost model needs XGBoost; pip install 'relay-int8[tune]', or search with "
                "TuneOptions(search='random')"
            ) from error
        self._xgboost: Any = xgboost
        self._seed = seed
        self._trials: dict[str, dict[Choices, float]] = defaultdict(dict)
        self._tasks: dict[str, Task] = {}
        self._models: dict[tuple[str, int], Any] = {}

    def learn(self, task: Task, trials: Iterable[Trial]) -> None:
        """Take note of trials of a task; what is not right is as slow as can be."""
        self._tasks[task.key] = task
        for trial in trials:
            if trial.choices:
                self._trials[task.key][trial.choices] = trial.measured.best_s
        self._models = {
            key: known for key, known in self._models.items() if key[0] != task.template
        }

    def predict(self, task: Task, candidates: Sequence[Choices]) -> np.ndarray | None:
        """Return the expected share of the fastest for each, or None where too little is known."""
        rows = np.array([_features(task, choices) for choices in candidates])
        key = task.template, rows.shape[1]
        if key not in self._models:
            self._models[key] = self._fit(*key)
        model = self._models[key]
        if model is None:
            return None
        return np.asarray(model.predict(self._xgboost.DMatrix(rows)))

    def _fit(self, template: str, width: int) -> Any:
        rows, shares = [], []
        for key, times in self._trials.items():
            best = min(times.values(), default=float("inf"))
            if self._tasks[key].template != template or not np.isfinite(best):
                continue
            for choices, time in times.items():
                features = _features(self._tasks[key], choices)
                if len(features) == width:
                    rows.append(features)
                    shares.append(best / time)
        if len(rows) < LEAST_SAMPLES:
            return None
        data = self._xgboost.DMatrix(np.array(rows), label=np.array(shares))
        return self._xgboost.train({**PARAMETERS, "seed": self._seed}, data, ROUNDS)


def unlikeness(one: Task, other: Task) -> float:
    """Return how far apart the sizes of two kernels of one template are, in powers of two."""
    return distance(*(dataclasses.astuple(task.operator) for task in (one, other)))


def distance(one: Any, other: Any) -> float:
    """Return how far apart the numbers in two values are, in powers of two; infinite if unequal."""
    pairs = [_logarithms(value) for value in (one, other)]
    if len(pairs[0]) != len(pairs[1]):
        return float("inf")
    return float(sum(abs(a - b) for a, b in zip(*pairs, strict=True)))


def _features(task: Task, choices: Choices) -> list[float]:
    return _logarithms((choices, dataclasses.astuple(task.operator)))


def _logarithms(value: Any) -> list[float]:
    return [log2(1 + abs(number)) for number in _numbers(value)]


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, tuple):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int | float):
        yield value
