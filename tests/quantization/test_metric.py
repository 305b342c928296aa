"""A user's metric: what it is given, and what is said where it fails."""

import re

import numpy as np
import pytest

from relay_int8.errors import CalibrationError, ConfigError
from relay_int8.quantization.metric import BoundMetric, MetricScores, mean_score

pytestmark = pytest.mark.fast
OUTPUTS = [{"y": np.array([[i, 1.0]])} for i in range(3)]


def score_of(function):
    return BoundMetric(function=function, name="mine").score(iter(OUTPUTS), [4, 5, 6])


def test_outputs_and_labels_come_in_order():
    def right(outputs, labels):
        pairs = list(zip(outputs, labels, strict=True))
        assert [(y["y"][0, 0], label) for y, label in pairs] == [(0, 4), (1, 5), (2, 6)]
        return np.float32(0.5)

    found = score_of(right)
    assert found == 0.5 and type(found) is float


def returning(value):
    return lambda outputs, _: list(outputs) and value


@pytest.mark.parametrize("value", [1, True, np.float64(1), np.array(1)])
def test_numbers(value):
    assert score_of(returning(value)) == 1.0


def raises(outputs, labels):
    raise KeyError("boxes")


def stops_early(outputs, labels):
    return float(sum(y["y"].sum() for _, y in zip(range(2), outputs, strict=False)))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (raises, "the metric mine raised KeyError: 'boxes'; it is called with two iterators"),
        (lambda outputs: 1, "the metric mine raised TypeError: .* takes 1 positional argument"),
        (returning(float("nan")), "returned nan; a finite number is expected"),
        (returning(-np.inf), "returned -inf; a finite number"),
        (returning(None), "returned a NoneType; a number is expected"),
        (returning("0.5"), "returned a str; a number"),
        (returning([0.5]), "returned a list; a number"),
        (returning(np.zeros(3)), re.escape("returned a ndarray of shape (3,); a number")),
        (returning(np.zeros(1)), re.escape("returned a ndarray of shape (1,); a number")),
        (returning(1j), "returned a complex; a number"),
        (stops_early, "did not look at the outputs of all images"),
    ],
)
def test_metrics_that_fail(function, message):
    with pytest.raises(ConfigError, match=message):
        score_of(function)


def test_what_the_project_says_is_not_the_metrics_fault():
    def damaged():
        yield OUTPUTS[0]
        raise CalibrationError("2.jpg: no picture")

    with pytest.raises(CalibrationError, match="no picture"):
        BoundMetric(function=returning(1), name="mine").score(damaged(), [])


def test_labels_go_with_images():
    metric = BoundMetric(function=max, name="mine", labels=np.arange(5))
    metric.require_images(5, "the data")
    assert list(metric.of_every_second(0).labels) == [0, 2, 4]
    assert list(metric.of_every_second(1).labels) == [1, 3]
    with pytest.raises(ConfigError, match="4 images, but 5 labels; give one for each image of it"):
        metric.require_images(4, "it")
    alone = BoundMetric(function=max, name="mine")
    assert alone.of_every_second(1).labels is None
    alone.require_images(4, "it")


def test_scores_as_text():
    assert mean_score([0.5, 1.0], [3, 1]) == 0.625
    scores = MetricScores(metric="top-1", images=64, fp32=0.63, default=0.605, chosen=0.62)
    assert str(scores) == (
        "top-1, on 64 images not seen: FP32 0.6300, default 0.6050, chosen 0.6200"
    )
