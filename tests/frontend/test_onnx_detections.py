"""TensorRT's plugins that suppress boxes, against their documentation written in NumPy."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from tests.frontend.test_mxnet_suppression import overlap
from tests.mxnet_models import run_lowered

BOXES, CLASSES, COUNT = 21, 3, 12
EFFICIENT = {"score_threshold": 0.25, "iou_threshold": 0.5, "max_output_boxes": COUNT}
BATCHED = {
    "scoreThreshold": 0.25, "iouThreshold": 0.5, "keepTopK": COUNT, "topK": 9, "numClasses": 3,
    "shareLocation": 1,
}  # fmt: skip


def imported(op: str, shape: tuple[int, ...], attrs: dict, domain: str = "", extra: tuple = ()):
    """Import a model of one plugin; ``extra`` are names of further inputs."""
    names = ["boxes", "scores", *extra]
    node = helper.make_node(
        op, names, ["count", "rows", "values", "labels"], domain=domain, **attrs
    )
    shapes = [shape, (2, BOXES, CLASSES), *[(1, BOXES, 4)] * len(extra)]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in node.output
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        for name, dims in zip(names, shapes, strict=True)
    ]
    versions = [helper.make_opsetid("", 13), helper.make_opsetid("TRT", 1)]
    graph = helper.make_graph([node], "plugin", inputs, outputs)
    return import_onnx(helper.make_model(graph, opset_imports=versions))


def arrays() -> tuple[np.ndarray, np.ndarray]:
    """Return boxes on a coarse grid, and scores of which no two of an image are equal."""
    rng = np.random.default_rng(3)
    low = rng.integers(0, 5, (2, BOXES, 2))
    boxes = np.concatenate([low, low + rng.integers(1, 4, low.shape)], -1) / 8
    scores = np.stack([rng.permutation(BOXES * CLASSES) for _ in range(2)]) / (BOXES * CLASSES)
    return boxes.astype("float32"), scores.reshape(2, BOXES, CLASSES).astype("float32")


def selected(
    scores, is_enough, suppresses, *, count: int = COUNT, top_k: int = 0
) -> list[tuple[int, int]]:
    """Return (box, class) of what is kept, by falling scores."""
    left = [(box, row) for box, row in np.ndindex(scores.shape) if is_enough(scores[box, row], row)]
    left.sort(key=lambda each: -scores[each])
    kept: list[tuple[int, int]] = []
    seen = [0] * CLASSES
    for box, row in left:
        seen[row] += 1
        if top_k and seen[row] > top_k:
            continue
        if not any(suppresses(box, row, *other) for other in kept) and len(kept) < count:
            kept.append((box, row))
    return kept


def check(found, boxes, scores, kept, nothing: int) -> None:
    """Compare what was found of one image."""
    count, rows, values, labels = found
    assert count.tolist() == [len(kept)] and kept
    np.testing.assert_array_equal(rows[: len(kept)], boxes[[box for box, _ in kept]])
    np.testing.assert_allclose(values[: len(kept)], [scores[each] for each in kept], rtol=1e-6)
    assert labels[: len(kept)].tolist() == [row for _, row in kept]
    assert not rows[len(kept) :].any() and not values[len(kept) :].any()
    assert (labels[len(kept) :] == nothing).all()


@pytest.mark.parametrize(
    ("attrs", "domain"),
    [
        ({}, ""),
        ({"background_class": 1, "max_output_boxes": 3 * BOXES}, "TRT"),
        ({"class_agnostic": 1, "max_output_boxes": BOXES}, "TRT"),
        ({"score_activation": 1, "box_coding": 1}, ""),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else value,
)
def test_efficient_nms(attrs, domain):
    boxes, scores = arrays()
    given, shown = boxes, scores
    if attrs.get("box_coding"):
        given = np.concatenate([(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], -1)  # fmt: skip
        shown = np.log(scores / (1 - scores), where=scores > 0, out=np.full_like(scores, -30))
    mod = imported("EfficientNMS_TRT", (2, BOXES, 4), EFFICIENT | attrs, domain)
    found = run_lowered(mod, given, shown)
    assert [array.dtype.name for array in found] == ["int32", "float32", "float32", "int32"]
    for image in range(2):
        kept = selected(
            scores[image],
            lambda score, row: score >= 0.25 and row != attrs.get("background_class"),
            lambda box, row, other, other_row, image=image: (
                (attrs.get("class_agnostic") or row == other_row)
                and overlap(boxes[image, box], boxes[image, other]) >= 0.5
            ),
            count=(EFFICIENT | attrs)["max_output_boxes"],
        )
        check([array[image] for array in found], boxes[image], scores[image], kept, 0)


@pytest.mark.parametrize(
    "attrs", [{}, {"backgroundLabelId": 0, "clipBoxes": 0}, {"isNormalized": 0}]
)
def test_batched_nms(attrs):
    boxes, scores = arrays()
    mod = imported("BatchedNMSDynamic_TRT", (2, BOXES, 1, 4), BATCHED | attrs)
    found = run_lowered(mod, boxes[:, :, None], scores)
    assert [array.dtype.name for array in found] == ["int32", "float32", "float32", "float32"]
    last = np.float32([0, 0, 1, 1]) if attrs.get("isNormalized") == 0 else np.float32(0)
    for image in range(2):
        kept = selected(
            scores[image],
            lambda score, row: score > 0.25 and row != attrs.get("backgroundLabelId"),
            lambda box, row, other, other_row, image=image: (
                row == other_row
                and overlap(boxes[image, box] + last, boxes[image, other] + last) > 0.5
            ),
            top_k=9,
        )
        shown = boxes[image] if attrs.get("clipBoxes") == 0 else boxes[image].clip(0, 1)
        check([array[image] for array in found], shown, scores[image], kept, -1)


@pytest.mark.parametrize(
    ("shape", "extra", "message"),
    [
        ((2, BOXES, CLASSES, 4), (), "boxes of their own for each of 3 classes"),
        ((2, BOXES, 4), ("anchors",), "boxes that are steps of anchors"),
    ],
)
def test_what_is_not_read_is_said(shape, extra, message):
    with pytest.raises(UnsupportedOpError, match=message):
        imported("EfficientNMS_TRT", shape, EFFICIENT, extra=extra)
