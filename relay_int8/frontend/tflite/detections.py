"""The operator that detectors of TensorFlow end in, and TFLite's own suppressions of boxes.

    boxes, classes, scores, count = TFLite_Detection_PostProcess(encodings, predictions, anchors)

An encoding is (y, x, height, width) of a box, in steps of its anchor, which is written alike:

    centre  = encoding / scale * anchor's extent + anchor's centre
    extent  = exp(encoding / scale) * anchor's extent

Regular suppression looks at each class by itself, fast suppression at the best class of each box,
and gives the best few of a box that is kept. Rows behind the last detection are zeros; TFLite does
not write them after fast suppression.
"""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from relay_int8.frontend.suppression import (
    at_least_zero,
    chosen_parts,
    from_score,
    is_kept,
    only_where,
    rows_at,
    suppressed,
)
from relay_int8.frontend.tflite.step import Converter, TfliteStep
from relay_int8.frontend.tflite.tables import Array
from relay_int8.frontend.tflite.tensors import Result
from relay_int8.graph.dataflow import shape

DETECTIONS_PER_CLASS = 100  # where a file does not say it


def _detections(step: TfliteStep) -> list[Result]:
    """Return boxes (n, rows, 4), classes and scores (n, rows), and how many detections (n,)."""
    count, of_box = step.integer("max_detections", 1), step.integer("max_classes_per_detection", 1)
    boxes, scores = _boxes(step), _scores(step, step.integer("num_classes", 1))
    if shape(scores)[:2] != shape(boxes)[:2]:
        raise ValueError(f"it has boxes {list(shape(boxes))} and scores {list(shape(scores))}")
    if int(_option(step, "use_regular_nms", 0)):
        kept, found = _regular(step, boxes, scores, count)
        found = found if of_box == 1 else [_with_rows(step, x, count * of_box) for x in found]
    else:
        kept, found = _fast(step, boxes, scores, count, of_box)
    number = step.emit("is_found", relax.op.astype(is_kept(step.emit, kept), "float32"))
    return [*found, relax.op.sum(number, [1])]


def _boxes(step: TfliteStep) -> relax.Expr:
    """Return the corners of all boxes, (n, boxes, 4): y, x, y, x."""
    x, anchors = step.plain(0), step.reals(2)
    dims = shape(x)
    if len(dims) != 3 or dims[2] < 4 or anchors.shape != (dims[1], 4):
        raise ValueError(f"its boxes are {list(dims)}, its anchors {list(anchors.shape)}")
    y_scale, x_scale, h_scale, w_scale = (
        _positive(step, name) for name in ("y_scale", "x_scale", "h_scale", "w_scale")
    )
    centres, extents = anchors[:, :2].astype(np.float64), anchors[:, 2:].astype(np.float64)
    move, stretch = (
        step.emit(name, relax.op.strided_slice(x, [2], [begin], [begin + 2]))
        for name, begin in (("move", 0), ("stretch", 2))
    )
    moved = relax.op.multiply(move, _constant(extents / [y_scale, x_scale]))
    centre = step.emit("centre", relax.op.add(step.emit("moved", moved), _constant(centres)))
    power = relax.op.multiply(stretch, _constant(np.array([[1 / h_scale, 1 / w_scale]])))
    grown = step.emit("grown", relax.op.exp(step.emit("power", power)))
    half = step.emit("half", relax.op.multiply(grown, _constant(extents / 2)))
    corners = [relax.op.subtract(centre, half), relax.op.add(centre, half)]
    parts = [step.emit("corner", corner) for corner in corners]
    return step.emit("boxes", relax.op.concat(parts, 2))


def _constant(values: np.ndarray) -> relax.Expr:
    return relax.const(values.astype(np.float32)[None])


def _scores(step: TfliteStep, classes: int) -> relax.Expr:
    """Return the scores of classes, (n, boxes, classes); a first one may be the background."""
    x = step.plain(1)
    dims = shape(x)
    if len(dims) != 3 or dims[2] - classes not in (0, 1):
        raise ValueError(f"its predictions are {list(dims)} of {classes} classes")
    if dims[2] == classes:
        return x
    return step.emit("scores", relax.op.strided_slice(x, [2], [1], [dims[2]]))


def _regular(
    step: TfliteStep, boxes: relax.Expr, scores: relax.Expr, count: int
) -> tuple[relax.Expr, list[relax.Expr]]:
    """Return what is kept of all classes together, and its boxes, classes and scores."""
    of_class = int(_option(step, "detections_per_class", DETECTIONS_PER_CLASS))
    if of_class < 1:
        raise ValueError(f"its detections_per_class is {of_class}, not 1 or more")
    turned = step.emit("of_classes", relax.op.permute_dims(scores, [0, 2, 1]))
    limit = of_class if of_class < count else 0
    kept = _kept(step, boxes, turned, count, max_per_class=limit)
    corners, row, values = chosen_parts(step.emit, boxes, turned, kept)
    return kept, [corners, relax.op.astype(step.emit("row", row), "float32"), values]


def _fast(
    step: TfliteStep, boxes: relax.Expr, scores: relax.Expr, count: int, of_box: int
) -> tuple[relax.Expr, list[relax.Expr]]:
    """Return which boxes are kept, and their corners, best classes and scores."""
    n, _, classes = shape(scores)
    most = min(of_box, classes)
    best = step.emit("best", relax.op.max(scores, [2]))
    kept = _kept(step, boxes, step.emit("of_best", relax.op.expand_dims(best, 1)), count)
    chosen = step.emit("chosen", rows_at(step.emit, scores, kept, 0.0))
    if most == 1:
        label = step.emit("label", relax.op.argmax(chosen, 2, keepdims=True))
        value = step.emit("score", relax.op.max(chosen, [2], keepdims=True))
    else:
        pair = step.emit("top", relax.op.topk(chosen, most, 2, "both", True, "int32"))
        value, label = (step.emit("part", relax.TupleGetItem(pair, index)) for index in (0, 1))
    label = step.emit("class", relax.op.astype(label, "float32"))
    label = step.emit("class", only_where(is_kept(step.emit, kept, (most,)), label, 0.0))
    corners = step.emit("corners", rows_at(step.emit, boxes, kept, 0.0))
    corners = step.emit("each", relax.op.expand_dims(corners, 2))
    corners = step.emit("each", relax.op.broadcast_to(corners, (n, count, most, 4)))
    rows = (n, count * of_box)
    return kept, [
        relax.op.reshape(_with_columns(step, x, of_box), (*rows, *shape(x)[3:]))
        for x in (corners, label, value)
    ]


def _kept(
    step: TfliteStep, boxes: relax.Expr, scores: relax.Expr, count: int, max_per_class: int = 0
) -> relax.Expr:
    least, overlap = float(step.options["nms_score_threshold"]), step.number("nms_iou_threshold")  # type: ignore[arg-type]
    if math.isnan(least) or not 0 < overlap <= 1:
        raise ValueError(f"its nms_score_threshold is {least}, its nms_iou_threshold {overlap}")
    return suppressed(
        step.emit,
        boxes,
        scores,
        least=from_score(least),
        overlap=overlap,
        max_output=count,
        max_per_class=max_per_class,
    )


def _with_columns(step: TfliteStep, x: relax.Expr, columns: int) -> relax.Expr:
    """Return classes of boxes, (n, boxes, classes, ...), zeros behind those that there are."""
    missing, rank = columns - shape(x)[2], len(shape(x))
    if not missing:
        return x
    widths = [0, 0, 0, 0, 0, missing, *[0, 0] * (rank - 3)]
    return step.emit("wide", relax.op.nn.pad(x, widths))


def _with_rows(step: TfliteStep, x: relax.Expr, rows: int) -> relax.Expr:
    """Return detections, zeros behind those that there are."""
    x = step.emit("rows", x)
    missing, rank = rows - shape(x)[1], len(shape(x))
    return relax.op.nn.pad(x, [0, 0, 0, missing, *[0, 0] * (rank - 2)])


def _positive(step: TfliteStep, name: str) -> float:
    value = step.number(name)
    if value <= 0:
        raise ValueError(f"its {name} is {value}")
    return value


def _option(step: TfliteStep, name: str, default: int) -> float:
    """Return an option that a file may leave out."""
    return step.number(name) if name in step.options else default


def _selection(step: TfliteStep) -> list[Result]:
    """Return numbers of boxes, zeros behind them, their scores (version 5), and how many."""
    boxes, scores = step.plain(0), step.plain(1)
    many = shape(scores)[0] if len(shape(scores)) == 1 else 0
    if shape(boxes) != (many, 4):
        raise ValueError(f"it has boxes {list(shape(boxes))} and scores {list(shape(scores))}")
    names = ("max_output_size", "iou_threshold", "score_threshold", "soft_nms_sigma")
    known = {name: step.known(2 + i) for i, name in enumerate(names[: len(step.inputs) - 2])}
    values = {name: float(_single(name, array)) for name, array in known.items()}
    if values.get("soft_nms_sigma", 0.0):
        raise NotImplementedError("suppression that lowers scores (soft_nms_sigma)")
    count = int(values["max_output_size"])
    if count < 1:
        raise ValueError(f"its max_output_size is {count}, not 1 or more")
    kept = suppressed(
        step.emit,
        step.emit("boxes", relax.op.reshape(boxes, (1, many, 4))),
        step.emit("scores", relax.op.reshape(scores, (1, 1, many))),
        least=values["score_threshold"],
        overlap=values["iou_threshold"],
        max_output=count,
        inclusive=True,
    )
    number = step.emit("is_found", relax.op.astype(is_kept(step.emit, kept), "int32"))
    chosen = relax.op.reshape(at_least_zero(step.emit, kept), (count,))
    found: list[Result] = [chosen]
    if len(step.outputs) == 3:
        rows = step.emit("row", relax.op.reshape(scores, (1, many)))
        values = step.emit("values", rows_at(step.emit, rows, kept, 0.0))
        found.append(relax.op.reshape(values, (count,)))
    return [*found, relax.op.sum(number)]


def _single(name: str, array: Array | None) -> Array:
    if array is None:
        raise NotImplementedError(f"its {name} is computed, not constant")
    if array.size != 1:
        raise ValueError(f"its {name} is {array.size} numbers")
    return array.reshape(())


DETECTIONS: dict[str, Converter] = {
    "CUSTOM TFLite_Detection_PostProcess": _detections,
    "NON_MAX_SUPPRESSION_V4": _selection,
    "NON_MAX_SUPPRESSION_V5": _selection,
}
