"""NumPy reference of non-maximum suppression: bit for bit."""

from __future__ import annotations

import numpy as np

from schedules.reference.exact import fma
from schedules.spec import Suppression
from schedules.template import Arrays


def suppression(spec: Suppression, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return the numbers of candidates, -1 behind the last one."""
    count = len(tensors["scores"])
    y = np.full((count, spec.max_output), -1, np.int32)
    for image in range(count):
        labels = tensors["labels"][image] if spec.labelled else np.zeros(spec.boxes, np.float32)
        boxes = tensors["boxes"][image] if spec.compares else None
        kept = _kept(spec, boxes, tensors["scores"][image], labels, params)
        y[image, : len(kept)] = kept
    return y


def _kept(
    spec: Suppression,
    boxes: np.ndarray | None,
    scores: np.ndarray,
    labels: np.ndarray,
    params: Arrays,
) -> list[int]:
    """Return what y has of one image, up to where nothing is left."""
    flat = scores.reshape(-1)
    order = np.argsort(-flat, kind="stable")
    order = order[flat[order] > params["least"][0]]
    looked_at = np.zeros(spec.classes, np.int64)
    kept: list[int] = []
    listed: list[int] = []
    for candidate in order:
        if len(listed) == spec.max_output:
            break
        row, box = divmod(int(candidate), spec.boxes)
        looked_at[row] += 1
        rivals = [other for other in kept if other // spec.boxes == row]
        is_alive = not (spec.top_k and looked_at[row] > spec.top_k)
        is_alive &= not (spec.max_per_class and len(rivals) == spec.max_per_class)
        if boxes is not None:
            others = np.array([other % spec.boxes for other in rivals], np.int64)
            others = others[labels[others] == labels[box]]
            shares = overlaps(boxes[box], boxes[others])
            limit = params["overlap"][0]
            is_alive &= not (shares >= limit if spec.inclusive else shares > limit).any()
        if is_alive:
            kept.append(int(candidate))
        if is_alive or spec.lists_all:
            listed.append(int(candidate) if is_alive else -2 - int(candidate))
    return listed


def overlaps(box: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return intersection over union of a box and others, float32; NaN of boxes without area."""
    extents = np.maximum(box[2:] - box[:2], np.float32(0))
    of_others = np.maximum(others[:, 2:] - others[:, :2], np.float32(0))
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    common = np.maximum(high - low, np.float32(0))
    shared = common[:, 0] * common[:, 1]
    union = fma(of_others[:, 0], of_others[:, 1], -shared)
    union = fma(np.broadcast_to(extents[0], union.shape), extents[1], union)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.asarray(shared / union)
