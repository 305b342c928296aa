"""The metrics that come with the project, counted by hand, and what they refuse."""

import numpy as np
import pytest

from relay_int8.api.bind_metric import bound_metric
from relay_int8.errors import ConfigError
from relay_int8.notices import Notice

pytestmark = pytest.mark.fast
F = np.float32


def score(name, arrays, labels=None, references=()):
    metric = bound_metric(name, labels)
    outputs = ({"first": y, "second": np.zeros(1)} for y in arrays)
    floats = ({"first": y} for y in references)
    return metric.score(outputs, floats if labels is None else metric.labels)


def scores_of(classes, count=4):
    return [np.eye(count, dtype=F)[[each]] for each in classes]


def test_top1():
    assert score("top-1", scores_of([0, 1, 2, 3]), [0, 1, 3, 3]) == 0.75
    assert score("top-1", [y.reshape(1, 4, 1, 1) for y in scores_of([2])], np.array([2])) == 1
    with pytest.raises(ConfigError, match="label 4 found, but the output has 4 values"):
        score("top-1", scores_of([0, 1]), [0, 4])


def test_labels_of_others_are_told_of_once():
    rights = np.arange(60) % 20
    metric = bound_metric("top-1", rights + 1)
    outputs = [{"y": y} for y in scores_of(rights, 30)]
    with pytest.warns(Notice, match="would be 1.0000 with 1 taken from every label") as told:
        found = [metric.score(outputs, metric.labels) for _ in range(2)]
    assert found == [0, 0] and len(told) == 1


CHOSEN = np.array([[0, 1, 1], [1, 0, 0]])
MASK = np.array([[0, 0, 1], [1, 1, 9]], np.uint8)  # 9 is no class


def test_mean_iou():
    pixels = np.eye(3, dtype=F)[CHOSEN].transpose(2, 0, 1)[None]
    # Class 0: 1 of 3 pixels that either has; class 1: 2 of 4; the last pixel does not count, nor
    # does class 2, which no mask has.
    assert score("mean-iou", [pixels], [MASK]) == pytest.approx((1 / 3 + 2 / 4) / 2)
    # Two images count together: 3 of 5, 4 of 6.
    both = score("mean-iou", [pixels, np.eye(3, dtype=F)[MASK % 9].transpose(2, 0, 1)[None]],
                 np.stack([MASK, MASK]))  # fmt: skip
    assert both == pytest.approx((3 / 5 + 5 / 7) / 2)


@pytest.mark.parametrize("shape", [(1, 2, 3), (1, 1, 2, 3)])
def test_mean_iou_of_classes(shape):
    mask = np.where(MASK == 9, 255, MASK)
    found = score("mean-iou", [CHOSEN.reshape(shape)], [mask])
    assert found == pytest.approx((1 / 3 + 2 / 4) / 2)


@pytest.mark.parametrize(
    ("output", "mask", "message"),
    [
        (np.zeros((1, 3, 2, 2), F), MASK, r"a mask of shape \(2, 3\), uint8, for an output of"),
        (np.zeros((1, 3, 2, 3), F), MASK.astype(F), "float32, for an output"),
        (np.zeros((1, 3, 2, 3), F), np.full((2, 3), 7), "no pixel of the masks is of a class"),
        (np.zeros((1, 1, 2, 3), F), MASK, "mean-iou takes scores .* a function of your own"),
        (np.zeros((1, 10), F), MASK, r"the first output is float32 \(1, 10\)"),
    ],
)
def test_masks_that_do_not_fit(output, mask, message):
    with pytest.raises(ConfigError, match=message):
        score("mean-iou", [output], [mask])


def test_agreement():
    assert score("agreement", scores_of([0, 1, 2]), references=scores_of([0, 1, 3])) == 2 / 3
    pixels = [np.eye(3, dtype=F)[each].transpose(2, 0, 1)[None] for each in (CHOSEN, MASK % 9)]
    assert score("agreement", pixels[:1], references=pixels[1:]) == pytest.approx(4 / 6)
    assert score("agreement", [CHOSEN[None]], references=[MASK[None]]) == pytest.approx(3 / 6)
    with pytest.raises(ConfigError, match="agreement takes scores"):
        score("agreement", [np.zeros((1, 1), F)], references=[np.zeros((1, 1), F)])


@pytest.mark.parametrize(
    ("metric", "labels", "message"),
    [
        ("top-2", None, "metric 'top-2' is unknown; choose one of top-1, mean-iou, agreement"),
        (3, None, "metric is a int; give a function of outputs and labels"),
        ("top-1", None, "top-1 needs labels, one for each image; agreement needs none"),
        ("mean-iou", None, "mean-iou needs labels"),
        ("agreement", [1], "agreement compares with FP32 and takes no labels"),
        ("top-1", [0.5], "labels are float64, integers expected"),
        ("top-1", [[1], [2]], r"labels of shape \(2, 1\); give one integer for each image"),
        ("top-1", [[1], [2, 3]], "labels are no array: .*; give one integer an image"),
        (max, iter([1]), "labels are a list_iterator; give a list or an array"),
    ],
)
def test_what_is_no_metric(metric, labels, message):
    with pytest.raises(ConfigError, match=message):
        bound_metric(metric, labels)


def test_the_users_own():
    class Detections:
        def __call__(self, outputs, boxes):
            return len(list(outputs)) + sum(boxes)

    metric = bound_metric(Detections(), [1, 2])
    assert metric.name == "Detections" and metric.score([{}, {}], metric.labels) == 5
