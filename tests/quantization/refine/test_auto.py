"""Preset auto: what it tries, what it says meanwhile, when it stops, and that threads change nothing."""

import numpy as np
import pytest

from relay_int8.errors import ConfigError
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.quantize import quantize
from relay_int8.quantization.refine import float_tensors, parallel
from tests.quantization.test_bias_correction import dataset, network, pictures

QUESTIONS = ["weights and biases", "equalization", "signed tensors", "ranges"]


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
    assert questions == [*QUESTIONS, "weights and biases, again"]
    for choice in chosen.choices:
        assert choice.picked in choice.tried and choice.picked in str(choice)
        assert choice.untried == () and "no time" not in str(choice)
    last = chosen.choices[-1]
    assert last.tried[last.picked] >= chosen.choices[0].tried["analytic correction"]
    assert chosen.config.preset != "auto"


def test_progress_says_what_is_tried_and_how_long_it_takes(chosen, reports):
    stages = list(dict.fromkeys(stage for stage, *_ in reports if stage.startswith("auto: ")))
    assert stages[0] == "auto: weights and biases, analytic correction"
    assert any("auto: equalization, smooth" in stage for stage in stages)
    assert all("s left at most)" in stage for stage in stages[1:-1])
    for stage in stages:
        assert [report[1:] for report in reports if report[0] == stage] == [(0, 2), (1, 2), (2, 2)]


def test_neither_threads_nor_memory_change_what_is_chosen(chosen, monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 1)
    monkeypatch.setattr(float_tensors, "KEPT_BYTES", 0)
    alone = of_auto()
    assert alone.digest == chosen.digest
    assert [choice.tried for choice in alone.choices] == [choice.tried for choice in chosen.choices]


def test_a_budget_that_is_spent_ends_with_the_best_so_far():
    stopped = of_auto(budget=1e-6)
    first, *others = stopped.choices
    assert first.picked == "analytic correction" and "no time for" in str(first)
    assert all(len(choice.tried) == 1 and choice.untried for choice in others)
    default = quantize(network(True), dataset(pictures(18)), QuantConfig())
    assert stopped.digest == default.digest
    assert stopped.config.budget is None and "budget" not in stopped.settings


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
