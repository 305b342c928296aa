"""Preset auto by a metric: what the metric is given, what it decides, and how it fails."""

import numpy as np
import pytest

from relay_int8.api.bind_metric import bound_metric
from relay_int8.errors import ConfigError
from relay_int8.numerics.judgement import Judgement
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.metric import BoundMetric
from relay_int8.quantization.quantize import quantize
from relay_int8.quantization.refine import auto, parallel, trial
from relay_int8.quantization.refine.trial_result import TrialResult
from tests.quantization.test_bias_correction import dataset, network, outputs, pictures

IMAGES = 18
X = pictures(IMAGES)


def of_auto(metric, x=X):
    return quantize(network(True), dataset(x), QuantConfig(preset="auto"), metric=metric)


@pytest.fixture(scope="module")
def floats():
    return outputs(network(True), X)


class Spy:
    """A metric that remembers what it was given: labels, and the logits beside them."""

    def __init__(self):
        self.calls = []

    def __call__(self, found, labels):
        pairs = list(zip(found, labels, strict=True))
        assert all(list(y) == ["logits"] and y["logits"].shape == (1, 6) for y, _ in pairs)
        logits = np.concatenate([y["logits"] for y, _ in pairs])
        assert logits.dtype == np.float32
        self.calls.append(([label for _, label in pairs], logits))
        return 0.5


@pytest.fixture(scope="module")
def spied():
    """Return what auto chose by a metric that says the same of all, its calls, and the trials."""
    spy, trials = Spy(), []
    judge = trial._judgement
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial, "_judgement", lambda *task: trials.append(task) or judge(*task))
        made = of_auto(BoundMetric(function=spy, name="spy", labels=range(100, 100 + IMAGES)))
    return made, spy.calls, trials


def test_the_metric_is_given_images_not_seen_with_their_labels(spied, floats):
    _, calls, _ = spied
    halves = [list(range(101, 118, 2)), list(range(100, 118, 2))]
    assert [labels for labels, _ in calls[:2]] == halves
    for labels, logits in calls:
        assert labels in halves
        wanted = floats[np.array(labels) - 100]
        np.testing.assert_allclose(logits, wanted, atol=0.2 * np.abs(wanted).max())
    for labels, logits in calls[:2]:  # FP32 comes first
        np.testing.assert_allclose(logits, floats[np.array(labels) - 100], rtol=1e-4, atol=1e-4)


def test_no_trial_is_made_for_the_metric(spied):
    _, calls, trials = spied
    assert len(calls) == 2 + len(trials)


def test_a_metric_that_is_the_same_for_all_leaves_it_to_decibels(spied):
    made, *_ = spied
    alone = quantize(network(True), dataset(X), QuantConfig(preset="auto"))
    assert made.digest == alone.digest
    assert [choice.tried for choice in made.choices] == [choice.tried for choice in alone.choices]
    assert alone.metric_scores is None and "metric" not in alone.settings


def test_the_report_says_which_metric_chose(spied):
    made, _, _ = spied
    scores = made.metric_scores
    assert (scores.metric, scores.images) == ("spy", IMAGES)
    assert (scores.fp32, scores.default, scores.chosen) == (0.5, 0.5, 0.5)
    assert made.settings["metric"] == str(scores)
    for choice in made.choices:
        assert choice.scores == dict.fromkeys(choice.tried, 0.5)
    assert "depthwise 0.5000 and " in made.settings["choices"][0]


def test_labels_follow_their_images(floats):
    """In another order other images are held out, and here the same is chosen."""
    order = np.random.default_rng(5).permutation(IMAGES)
    labels = floats.argmax(axis=1)
    made = [
        of_auto(bound_metric("top-1", labels[numbers]), X[numbers])
        for numbers in (np.arange(IMAGES), order)
    ]
    for each in made:
        assert each.metric_scores.fp32 == 1.0
        assert each.metric_scores.chosen >= each.metric_scores.default
    assert made[0].digest == made[1].digest


def test_neither_threads_nor_names_of_the_metric_change_what_is_chosen(monkeypatch):
    by_all = of_auto(bound_metric("agreement", None))
    monkeypatch.setattr(parallel, "usable_cores", lambda: 1)
    alone = of_auto(bound_metric("agreement", None))
    assert alone.digest == by_all.digest and alone.choices == by_all.choices
    assert alone.metric_scores == by_all.metric_scores and by_all.metric_scores.fp32 == 1


def fails_from(call, then):
    """Return a metric that gives 0.5, and ``then`` from a call on."""
    calls = []

    def metric(found, _):
        calls.append(len(list(found)))
        return 0.5 if len(calls) < call else then

    return BoundMetric(function=metric, name="mine")


@pytest.mark.parametrize("call", [1, 3])
def test_a_metric_that_fails_ends_the_search(call):
    with pytest.raises(ConfigError, match="the metric mine returned nan; a finite number"):
        of_auto(fails_from(call, float("nan")))


@pytest.mark.fast
def test_a_metric_is_for_auto():
    with pytest.raises(ConfigError, match="metric mine was given, and preset int8 searches noth"):
        config = QuantConfig(preset="int8")
        quantize(network(True), dataset(X), config, metric=fails_from(1, 0))


class Trials:
    """Stands in for the trials of a network: decibels and scores of each half, by method."""

    def __init__(self, results):
        self.done = []
        self._results = results

    def judged(self, tasks):
        """Return a result on eight images for each configuration and half."""
        self.done += [(config.method, half) for config, half in tasks]
        found = []
        for config, half in tasks:
            ratio_db, scores = self._results[config.method]
            noise = np.full((8, 1), 10 ** (-ratio_db / 10))
            judgement = Judgement(signal=np.ones((8, 1)), noise=noise)
            found.append(
                TrialResult(
                    judgement=judgement, scores=(scores[half],), float_scores=(1.0,), images=(8,)
                )
            )
        return found


METHODS = {name: QuantConfig(method=name) for name in ("mse-affine", "max", "percentile", "mse")}


@pytest.mark.fast
def test_the_metric_decides_before_decibels_do():
    trials = Trials(
        {
            "mse-affine": (20, (0.5, 0.5)),
            "max": (25, (0.5, 0.25)),  # more decibels, and less of what counts
            "percentile": (19, (0.625, 0.625)),  # more of it on both halves
            "mse": (21, (0.625, 0.625)),  # as much, and more decibels
        }
    )
    searched = auto._Search(trials, None, auto.clock(), None)
    choice = searched.decided("ranges", METHODS)
    assert choice.picked == "mse"
    assert choice.scores == {"mse-affine": 0.5, "max": 0.375, "percentile": 0.625, "mse": 0.625}
    assert "max 0.3750 and 25.00 dB" in str(choice)
    default = METHODS["mse-affine"]
    behind = [searched.is_behind(METHODS[name], default) for name in ("max", "percentile", "mse")]
    assert behind == [True, False, False]


@pytest.mark.fast
def test_an_answer_that_leads_by_the_metric_is_tried_on_all_images():
    trials = Trials(
        {
            "mse-affine": (20, (0.5, 0.5)),
            "max": (15, (0.625, 0.5)),
            "percentile": (15, (0.5, 0.75)),
            "mse": (15, (0.25, 0.75)),
        }
    )
    choice = auto._Search(trials, None, auto.clock(), None).decided("ranges", METHODS)
    assert choice.picked == "mse-affine" and choice.halved == ("percentile", "mse")
    assert ("max", 1) in trials.done and len(trials.done) == 6
