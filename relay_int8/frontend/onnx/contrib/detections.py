"""TensorRT's plugins that suppress boxes, which files made for it end in.

    count, boxes, scores, classes = EfficientNMS_TRT(boxes, scores)

Candidates are all scores of all boxes, each class by itself; rows behind the last detection are
zeros, the classes of ``BatchedNMS_TRT`` -1. TensorRT leaves open in which order equal scores come,
here it is that of classes, then of boxes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.frontend.suppression import (
    chosen_parts,
    from_centres,
    from_score,
    is_kept,
    only_where,
    rows_at,
    suppressed,
)
from relay_int8.graph.dataflow import dtype, shape

Attributes = Mapping[str, Any]


class _Step:
    """Binds values, and finds what is kept of boxes and scores.

    Parameters
    ----------
    bb
        What the graph is written by.
    boxes
        float32 (n, boxes, 4) or (n, boxes, 1, 4): two corners.
    scores
        float32 (n, boxes, classes).
    """

    def __init__(self, bb: relax.BlockBuilder, boxes: relax.Expr, scores: relax.Expr) -> None:
        self.bb = bb
        dims, (n, count, _) = shape(boxes), shape(scores)
        if len(dims) == 4 and dims[2] > 1:
            raise NotImplementedError(f"boxes of their own for each of {dims[2]} classes")
        if dims not in ((n, count, 4), (n, count, 1, 4)):
            raise ValueError(f"its boxes are {list(dims)}, its scores {list(shape(scores))}")
        self.boxes = self.emit("boxes", relax.op.reshape(boxes, (n, count, 4)))
        self.scores = self.emit("turned", relax.op.permute_dims(scores, [0, 2, 1]))

    def emit(self, _name: str, value: relax.Expr) -> relax.Expr:
        """Bind a value."""
        return self.bb.emit(value)

    def without(self, background: int) -> None:
        """Leave out a class, where there is such."""
        count = shape(self.scores)[1]
        if not 0 <= background < count:
            return
        is_object = np.arange(count).reshape(1, -1, 1) != background
        objects = only_where(relax.const(is_object, "bool"), self.scores, -math.inf)
        self.scores = self.emit("objects", objects)

    def detections(self, kept: relax.Expr, labels: relax.Expr | None) -> list[relax.Expr]:
        """Return how many, boxes, scores and classes, zeros behind the last one.

        ``labels`` are the classes of boxes where each has one score alone, (n, boxes).
        """
        corners, row, scores = chosen_parts(self.emit, self.boxes, self.scores, kept)
        if labels is not None:
            row = rows_at(self.emit, labels, kept, 0)
        parts = [self.emit("part", part) for part in (corners, scores, row)]
        found = self.emit("found", relax.op.astype(is_kept(self.emit, kept), "int32"))
        total = self.emit("count", relax.op.sum(found, [1], keepdims=True))
        return [total, *parts]


def _efficient(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Keep boxes by class, or of all classes together (``class_agnostic``)."""
    boxes, scores, *anchors = inputs
    if any(anchor is not None for anchor in anchors):
        raise NotImplementedError("boxes that are steps of anchors, its third input")
    if attributes.get("box_coding", 0):
        boxes = bb.emit(from_centres(lambda _, value: bb.emit(value), boxes))
    if attributes.get("score_activation", 0):
        scores = bb.emit(relax.op.sigmoid(scores))
    step = _Step(bb, boxes, scores)
    step.without(int(attributes.get("background_class", -1)))
    labels = None
    if attributes.get("class_agnostic", 0):
        index = bb.emit(relax.op.argmax(step.scores, 1))
        labels = bb.emit(relax.op.astype(index, "int32"))
        step.scores = bb.emit(relax.op.max(step.scores, [1], keepdims=True))
    kept = suppressed(
        step.emit,
        step.boxes,
        step.scores,
        least=from_score(float(attributes["score_threshold"])),
        overlap=float(attributes["iou_threshold"]),
        max_output=int(attributes["max_output_boxes"]),
        inclusive=True,
    )
    return relax.Tuple(step.detections(kept, labels))


def _batched(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Keep boxes by class; coordinates of pixels (``isNormalized`` 0) include the last pixel."""
    boxes, scores = inputs
    step = _Step(bb, boxes, scores)
    step.without(int(attributes.get("backgroundLabelId", -1)))
    compared = step.boxes
    if not attributes.get("isNormalized", 1):
        last = relax.const(np.array([[[0, 0, 1, 1]]], dtype(boxes)))
        compared = bb.emit(relax.op.add(compared, last))
    count, top_k = int(attributes["keepTopK"]), int(attributes["topK"])
    kept = suppressed(
        step.emit,
        compared,
        step.scores,
        least=float(attributes["scoreThreshold"]),
        overlap=float(attributes["iouThreshold"]),
        max_output=count,
        top_k=max(top_k, 0),
    )
    total, corners, values, row = step.detections(kept, None)
    if attributes.get("clipBoxes", 1):
        corners = bb.emit(relax.op.clip(corners, relax.prim_value(0.0), relax.prim_value(1.0)))
    label = bb.emit(relax.op.astype(row, dtype(scores)))
    label = bb.emit(only_where(is_kept(step.emit, kept), label, -1.0))
    return relax.Tuple([total, corners, values, label])


DOMAIN = "TRT"
"""Where exporters of PyTorch put them; other tools write the standard domain."""
PLUGINS: dict[str, Converter] = {
    "BatchedNMSDynamic_TRT": _batched,
    "BatchedNMS_TRT": _batched,
    "EfficientNMS_TRT": _efficient,
}
