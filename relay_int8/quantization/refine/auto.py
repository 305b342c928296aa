"""Choose preset, method and tools for a network, by what they do to its outputs.

The search begins with the default. One question after the other is decided with the others'
answers as they stand. Every answer quantizes the network twice, each time with one half of the
calibration images, and is judged by the outputs for the other half: the one wins that leaves them
nearest to FP32, the least exact output of the network counting. A simpler answer, which comes
first, wins unless another one is better by ``GAIN_DB`` and by more than the choice of images
explains (:mod:`relay_int8.numerics.judgement`); one that is ``BEHIND_DB`` behind after the first
half is not tried on the second. Where the user has a metric, it decides before decibels do
(:mod:`relay_int8.quantization.refine.trial_result`). In the end all that was chosen is held against
the default in the same way, and is then done again with all the images.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
from tvm import IRModule

from relay_int8.calibration.observe import Progress
from relay_int8.data.dataset import Image
from relay_int8.errors import ConfigError
from relay_int8.graph.batch import with_batch
from relay_int8.quantization.config import AUTO, QuantConfig, Tools
from relay_int8.quantization.metric import BoundMetric, MetricScores, mean_score
from relay_int8.quantization.refine.trial import HALVES, Trial
from relay_int8.quantization.refine.trial_result import TrialResult

GAIN_DB = 0.1
BEHIND_DB = 0.5  # and more than chance explains, on the first half of the images
clock = time.monotonic


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One question, the answer that was picked, and the decibels that each answer reached.

    ``halved`` are the answers that were too far behind after half of the images, whose decibels
    these are; ``untried`` are those that the budget left no time for; ``scores`` what the metric
    says of each answer, where there is one.
    """

    question: str
    picked: str
    tried: Mapping[str, float]
    halved: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()
    scores: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        tried = ", ".join(self._text(answer) for answer in self.tried)
        untried = f"; no time for {', '.join(self.untried)}" if self.untried else ""
        return f"{self.question}: {self.picked} (on images not seen: {tried}{untried})"

    def _text(self, answer: str) -> str:
        score = f"{self.scores[answer]:.4f} and " if answer in self.scores else ""
        half = " on half of them" if answer in self.halved else ""
        return f"{answer} {score}{self.tried[answer]:.2f} dB{half}"


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """What the search has found, why, and what the metric says of it, where there is one."""

    config: QuantConfig
    choices: tuple[Choice, ...]
    scores: MetricScores | None = None


Answers = Mapping[str, QuantConfig]
Halves = tuple[TrialResult, ...]
"""An answer's result on the first half of the images, and on the second unless it was cut."""


def choose_config(
    mod: IRModule,
    data: Iterable[Image],
    config: QuantConfig,
    progress: Progress | None = None,
    metric: BoundMetric | None = None,
) -> SearchResult:
    """Return what ``preset="auto"`` stands for with this network and these images.

    Parameters
    ----------
    mod
        Normalized float module.
    data
        Calibration images, of which at most ``IMAGES`` are looked at.
    config
        Exclusions and the like are kept. Its ``budget`` ends the search before an answer that would
        exceed it, judging by the longest so far; at least one is tried.
    progress
        Called before and after every half of the answers that are tried, with what they are and the
        seconds that are left.
    metric
        Judges answers before decibels do, with labels of all of ``data`` or none.
    """
    if config.method != QuantConfig.method or config.tools is not None:
        raise ConfigError(
            f"preset {AUTO} chooses method and tools itself; leave yours out, or take another "
            "preset"
        )
    started = clock()
    default = replace(config, preset=QuantConfig.preset, tools=Tools(), budget=None)
    trial = Trial(with_batch(mod, 1), data, default, metric)
    search = _Search(trial, config.budget, started, progress)
    chosen, choices = default, []
    for question, answers in _QUESTIONS.items():
        options = answers(chosen)
        choice = search.decided(question, options)
        chosen = options[choice.picked]
        choices.append(choice)
    if search.is_behind(chosen, default):
        options = {"the default": default, "all of these": chosen}
        choices.append(search.decided("in the end", options))
        chosen = default
    scores = None if metric is None else search.scores(metric.name, chosen)
    return SearchResult(config=chosen, choices=tuple(choices), scores=scores)


class _Search:
    """Answers that were tried, and the seconds that are left for others."""

    def __init__(
        self, trial: Trial, budget: float | None, started: float, progress: Progress | None
    ) -> None:
        self._trial = trial
        self._budget = np.inf if budget is None else budget
        self._progress = progress
        self._judged: dict[QuantConfig, Halves] = {}
        self._seconds: list[float] = []
        self._left = sum(MOST_TRIALS.values())
        self._started = started

    def decided(self, question: str, options: Answers) -> Choice:
        """Return which answer is picked of those that there is time for, one at least."""
        self._left = sum(MOST_TRIALS[later] for later in _from(question))
        self._try(question, options)
        tried = {name: self._judged[one] for name, one in options.items() if one in self._judged}
        joined = {name: TrialResult.joined(halves) for name, halves in tried.items()}
        whole = {name: joined[name] for name, halves in tried.items() if len(halves) == HALVES}
        return Choice(
            question=question,
            picked=_picked(whole),
            tried={name: result.ratio_db for name, result in joined.items()},
            halved=tuple(name for name in tried if name not in whole),
            untried=tuple(name for name in options if name not in tried),
            scores={name: one.score for name, one in joined.items() if one.score is not None},
        )

    def is_behind(self, chosen: QuantConfig, default: QuantConfig) -> bool:
        """Say whether all that was chosen does not gain over the default, where both are judged."""
        if chosen == default or default not in self._judged:
            return False
        found, start = (TrialResult.joined(self._judged[one]) for one in (chosen, default))
        return not found.beats(start, GAIN_DB)

    def scores(self, metric: str, chosen: QuantConfig) -> MetricScores:
        """Return what the metric says of FP32, of the default, which is tried first, and of it."""
        results = next(iter(self._judged.values())), self._judged[chosen]
        default, after = (TrialResult.joined(halves) for halves in results)
        return MetricScores(
            metric=metric,
            images=sum(default.images),
            fp32=mean_score(default.float_scores, default.images),
            default=mean_score(default.scores, default.images),
            chosen=mean_score(after.scores, after.images),
        )

    def _try(self, question: str, options: Answers) -> None:
        """Judge the answers that are new, as many at a time as there are halves."""
        new = {name: one for name, one in options.items() if one not in self._judged}
        while new and (affordable := self._affordable):
            judged = (self._judged[one] for one in options.values() if one in self._judged)
            leader = next((halves for halves in judged if len(halves) == HALVES), None)
            count = min(affordable, HALVES) if leader else 1
            batch = dict(islice(new.items(), count))
            new = dict(islice(new.items(), count, None))
            began = clock()
            self._judge(f"{question}, {' and '.join(batch)}", list(batch.values()), leader)
            self._seconds += [(clock() - began) / count] * count

    @property
    def _affordable(self) -> int:
        """How many more trials, as long as the longest, end within the budget."""
        if not self._seconds:
            return 1
        left = max(self._budget - (clock() - self._started), 0)
        return int(min(left / max(*self._seconds, 1e-9), HALVES))

    def _judge(self, text: str, configs: list[QuantConfig], leader: Halves | None) -> None:
        """Judge configurations, on the second half of the images where the first says so."""
        stage, total = f"{AUTO}: {text}{self._estimate}", HALVES * len(configs)
        self._left = max(self._left - len(configs), 0)
        self._report(stage, 0, total)
        if leader is None:
            tasks = [(config, half) for config in configs for half in range(HALVES)]
            self._note(tasks)
            self._report(stage, total, total)
            return
        self._note([(config, 0) for config in configs])
        self._report(stage, len(configs), total)
        first = leader[0]
        promising = [one for one in configs if not first.beats(self._judged[one][0], BEHIND_DB)]
        self._note([(config, 1) for config in promising])
        self._report(stage, total, total)

    def _note(self, tasks: list[tuple[QuantConfig, int]]) -> None:
        for (config, _), result in zip(tasks, self._trial.judged(tasks), strict=True):
            self._judged[config] = (*self._judged.get(config, ()), result)

    @property
    def _estimate(self) -> str:
        """Return the seconds that the search may still take, as a progress line ends."""
        if not self._seconds:
            return ""
        spent = clock() - self._started
        left = min(self._left * float(np.mean(self._seconds)), max(self._budget - spent, 0))
        return f" ({left:.0f} s left at most)" if left else ""

    def _report(self, stage: str, done: int, total: int) -> None:
        if self._progress:
            self._progress(stage, done, total)


def _from(question: str) -> list[str]:
    questions = list(_QUESTIONS)
    return questions[questions.index(question) :] if question in _QUESTIONS else []


def _picked(tried: Mapping[str, TrialResult]) -> str:
    """Return the first answer that no later one beats."""
    leader, *others = tried
    for name in others:
        if tried[name].beats(tried[leader], GAIN_DB):
            leader = name
    return leader


def _with_tools(config: QuantConfig, **settings: Any) -> QuantConfig:
    return replace(config, tools=replace(config.applied, **settings))


def _equalizations(config: QuantConfig) -> Answers:
    return {
        name: _with_tools(config, equalization=name)
        for name in ("depthwise", "smooth", "cross-layer")
    }


def _schemes(config: QuantConfig) -> Answers:
    names = ("int8",) if config.applied.unify else ("int8-asymmetric", "int8")
    return {name: replace(config, preset=name) for name in names}


def _ranges(config: QuantConfig) -> Answers:
    names = ("mse-affine", "max", "percentile", "mse")
    return {name: replace(config, method=name) for name in names}


def _constants(config: QuantConfig) -> Answers:
    if not config.bias_correction:
        return {"as they are": config}
    return {
        "analytic correction": _with_tools(config, correction="analytic", rounding="nearest"),
        "empirical correction, weights by descent": _with_tools(
            config, correction="empirical", rounding="descent"
        ),
    }


_QUESTIONS = {
    "equalization": _equalizations,
    "signed tensors": _schemes,
    "ranges": _ranges,
    "weights and biases": _constants,
}
"""Weights last: an answer to the other questions takes a run of the network, choosing weights well
takes many times that, and on the networks that were looked at it never changed the other answers
(decision 70)."""


MOST_TRIALS = dict(zip(_QUESTIONS, (3, 1, 3, 1), strict=True))
"""How many answers of each question earlier ones have not tried, at most."""
