"""Preset auto: what it tries, what it says meanwhile, when it stops, and that threads change nothing."""

import numpy as np
import pytest

from relay_int8.errors import ConfigError
from relay_int8.numerics.judgement import Judgement
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.quantize import quantize
from relay_int8.quantization.refine import auto, float_tensors, parallel
from relay_int8.quantization.refine.trial_result import TrialResult
from tests.quantization.test_bias_correction import dataset, network, pictures

QUESTIONS = ["equalization", "signed tensors", "ranges", "weights and biases"]


def of_auto(progress=None, **settings):
    config = QuantConfig(preset="auto", **settings)
    return quantize(network(True), dataset(pictures(18)), config, progress=progress)


@pytest.fixture(scope="module")
def reports():
    return []


@pytest.fixture(scope="module")
def chosen(reports):
    return of_auto(lambda *report: reports.append(report))


def test_what_was_picked_is_in_the_report(chosen):
    questions = [choice.question for choice in chosen.choices]
    assert questions == QUESTIONS
    for choice in chosen.choices:
        assert choice.picked in choice.tried and choice.picked in str(choice)
        assert choice.untried == () and "no time" not in str(choice)
    last = chosen.choices[-1]
    assert last.tried[last.picked] >= chosen.choices[0].tried["depthwise"]
    assert chosen.config.preset != "auto"


def test_progress_says_what_is_tried_and_how_long_it_takes(chosen, reports):
    stages = list(dict.fromkeys(stage for stage, *_ in reports if stage.startswith("auto: ")))
    assert stages[0] == "auto: equalization, depthwise"
    assert any("auto: equalization, smooth and cross-layer" in stage for stage in stages)
    assert all("s left at most)" in stage for stage in stages[1:-1])
    for stage in stages:
        done = [report[1:] for report in reports if report[0] == stage]
        total = done[0][1]
        assert done[0] == (0, total) and done[-1] == (total, total)
        assert done[1:-1] in ([], [(total // 2, total)])


def test_neither_threads_nor_memory_change_what_is_chosen(chosen, monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 1)
    monkeypatch.setattr(float_tensors, "KEPT_BYTES", 0)
    alone = of_auto()
    assert alone.digest == chosen.digest
    assert [choice.tried for choice in alone.choices] == [choice.tried for choice in chosen.choices]


def test_a_budget_that_is_spent_ends_with_the_best_so_far():
    stopped = of_auto(budget=1e-6)
    first, *others = stopped.choices
    assert first.picked == "depthwise" and "no time for" in str(first)
    assert all(len(choice.tried) == 1 and choice.untried for choice in others)
    default = quantize(network(True), dataset(pictures(18)), QuantConfig())
    assert stopped.digest == default.digest
    assert stopped.config.budget is None and "budget" not in stopped.settings


class Trials:
    """Stands in for the trials of a network: each takes ten seconds, methods have decibels."""

    def __init__(self, ratios_db):
        self.done, self.now = [], 0.0
        self._ratios_db = ratios_db

    def judged(self, tasks):
        """Return a result on eight images for each configuration and half."""
        self.done += [(config.method, half) for config, half in tasks]
        self.now += 5 * len(tasks)
        found = []
        for config, half in tasks:
            noise = 10 ** (-self._ratios_db[config.method][half] / 10)
            judgement = Judgement(signal=np.ones((8, 1)), noise=np.full((8, 1), noise))
            found.append(TrialResult(judgement=judgement))
        return found


def search(monkeypatch, ratios_db, budget=None):
    trials = Trials(ratios_db)
    monkeypatch.setattr(auto, "clock", lambda: trials.now)
    return trials, auto._Search(trials, budget, trials.now, None)


METHODS = {name: QuantConfig(method=name) for name in ("mse-affine", "max", "percentile", "mse")}


@pytest.mark.fast
def test_an_answer_that_is_behind_is_tried_on_half_of_the_images(monkeypatch):
    ratios_db = {"mse-affine": (20, 20), "max": (19, 30), "percentile": (19.8, 21), "mse": (9, 9)}
    trials, searched = search(monkeypatch, ratios_db)
    choice = searched.decided("ranges", METHODS)
    assert choice.picked == "percentile" and choice.halved == ("max", "mse")
    assert trials.done == [
        ("mse-affine", 0),
        ("mse-affine", 1),
        ("max", 0),
        ("percentile", 0),
        ("percentile", 1),
        ("mse", 0),
    ]
    assert choice.tried["max"] == pytest.approx(19)
    assert "max 19.00 dB on half of them, percentile 20.3" in str(choice)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("budget", "untried"),
    [
        (9, ("max", "percentile", "mse")),
        (25, ("percentile", "mse")),
        (30, ("mse",)),
        (40, ()),
    ],
)
def test_a_budget_is_not_exceeded(monkeypatch, budget, untried):
    trials, searched = search(monkeypatch, dict.fromkeys(METHODS, (20, 20)), budget)
    choice = searched.decided("ranges", METHODS)
    assert choice.untried == untried and choice.picked == "mse-affine"
    assert trials.now <= max(budget, 10)


@pytest.mark.fast
def test_what_was_chosen_has_to_gain_over_the_default(monkeypatch):
    gains = {"mse-affine": (20, 20), "max": (20.3, 19.8), "percentile": (21, 21), "mse": (20, 20)}
    _, searched = search(monkeypatch, gains)
    searched.decided("ranges", METHODS)
    default, *others = METHODS.values()
    behind = [searched.is_behind(one, default) for one in others]
    assert behind == [True, False, True] and not searched.is_behind(default, default)


@pytest.mark.fast
@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_budget_is_above_zero(seconds):
    with pytest.raises(ConfigError, match=r"the budget is .* s; a number above zero is expected"):
        QuantConfig(preset="auto", budget=seconds)


@pytest.mark.fast
def test_a_budget_is_for_auto():
    with pytest.raises(ConfigError, match="preset int8-asymmetric searches nothing"):
        QuantConfig(budget=60)


@pytest.mark.fast
def test_results_of_threads_come_in_order(monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 3)
    stacks = [np.full(4, i) for i in range(7)]
    assert parallel.in_parallel(np.sum, stacks) == [0, 4, 8, 12, 16, 20, 24]
