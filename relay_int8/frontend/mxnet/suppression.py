"""MXNet operators that suppress boxes: ``box_nms`` of GluonCV, ``MultiBoxDetection`` of SSD."""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from relay_int8.frontend.mxnet.attributes import Attributes
from relay_int8.frontend.mxnet.boxes import centre_and_size, corners, decoded, halves
from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.frontend.suppression import from_score, only_where, rows_at, suppressed
from relay_int8.graph.dataflow import dtype, shape

NOTHING = -1.0  # in rows without a box


def _box_nms(step: MxnetStep) -> relax.Expr:
    """Return the rows that are kept, by falling scores; rows behind them are -1."""
    attrs, dims = step.attributes, shape(step.x)
    if len(dims) < 2 or dims[-1] < 5:
        raise ValueError(f"its input is {list(dims)}, not rows of a score and four corners")
    count, width = dims[-2:]
    first = attrs.integer("coord_start", 2, least=0)
    places = _places(attrs, width, first)
    top_k = attrs.integer("topk", -1)
    if not top_k:
        return step.x
    kept_rows = count if top_k < 0 else min(count, top_k)
    rows = step.emit("rows", relax.op.reshape(step.x, (math.prod(dims[:-2]), count, width)))
    labels = None if places["id"] < 0 else _column(step, rows, places["id"])
    scores = _column(step, rows, places["score"])
    background = attrs.integer("background_id", -1)
    if labels is not None and background >= 0:
        is_object = relax.op.not_equal(labels, step.number(background))
        objects = only_where(step.emit("is_object", is_object), scores, -math.inf)
        scores = step.emit("objects", objects)
    boxes = step.emit("boxes", relax.op.strided_slice(rows, [2], [first], [first + 4]))
    given, wanted = (_format(attrs, name) for name in ("in_format", "out_format"))
    kept = suppressed(
        step.emit,
        step.emit("corners", corners(step, *halves(step, boxes))) if given == "center" else boxes,
        step.emit("scores", relax.op.expand_dims(scores, 1)),
        None if attrs.flag("force_suppress", False) else labels,
        least=attrs.real("valid_thresh", 0.0),
        overlap=attrs.real("overlap_thresh", 0.5),
        max_output=kept_rows,
        top_k=0 if top_k < 0 else kept_rows,
    )
    found = step.emit("found", rows_at(step.emit, rows, kept, NOTHING))
    if given != wanted:
        found = _converted(step, found, first, wanted)
    if kept_rows < count:
        widths = [0, 0, 0, count - kept_rows, 0, 0]
        found = step.emit("padded", relax.op.nn.pad(found, widths, "constant", NOTHING))
    return relax.op.reshape(found, dims)


def _places(attrs: Attributes, width: int, first: int) -> dict[str, int]:
    """Return where in a row its score and its class are; -1 for no class."""
    places = {
        "score": attrs.integer("score_index", 1, least=0),
        "id": attrs.integer("id_index", -1),
    }
    taken = [*range(first, first + 4), *(place for place in places.values() if place >= 0)]
    if max(taken) >= width or len(set(taken)) < len(taken):
        raise ValueError(f"its rows of {width} have boxes from {first} on, and {places}")
    return places


def _format(attrs: Attributes, name: str) -> str:
    found = attrs.text(name, "corner")
    # Files of older versions have the number of a word.
    found = {"0": "corner", "1": "center"}.get(found, found)
    if found not in ("corner", "center"):
        raise ValueError(f"its {name} is {found!r}, not corner or center")
    return found


def _column(step: MxnetStep, rows: relax.Expr, place: int) -> relax.Expr:
    """Return one number of each row, (n, rows)."""
    part = step.emit("column", relax.op.strided_slice(rows, [2], [place], [place + 1]))
    return step.emit("column", relax.op.squeeze(part, [2]))


def _converted(step: MxnetStep, rows: relax.Expr, first: int, wanted: str) -> relax.Expr:
    """Return rows with boxes in the other format; those that begin below zero stay."""
    width = shape(rows)[2]
    parts = [
        (begin, step.emit("part", relax.op.strided_slice(rows, [2], [begin], [end])))
        for begin, end in ((0, first), (first, first + 4), (first + 4, width))
        if end > begin
    ]
    boxes = next(part for begin, part in parts if begin == first)
    if wanted == "center":
        changed = step.emit("changed", relax.op.concat([*centre_and_size(step, boxes)], 2))
    else:
        changed = step.emit("changed", corners(step, *halves(step, boxes)))
    left = step.emit("left", relax.op.strided_slice(boxes, [2], [0], [1]))
    is_inside = step.emit("is_inside", relax.op.greater_equal(left, step.number(0.0)))
    chosen = step.emit("converted", relax.op.where(is_inside, changed, boxes))
    joined = [chosen if begin == first else part for begin, part in parts]
    return step.emit("rows", relax.op.concat(joined, 2)) if len(joined) > 1 else chosen


def _multibox_detection(step: MxnetStep) -> relax.Expr:
    """Return (class, score, corners) of each anchor's best class, by falling scores.

    Classes of what is suppressed are -1, and of anchors below the threshold all numbers. The
    background is class 0 of the scores, whatever ``background_id`` says, as MXNet has it.
    """
    attrs = step.attributes
    scores, moves, anchors = step.operands("cls_prob", "loc_pred", "anchor")
    if len(shape(scores)) != 3 or shape(scores)[1] < 2:
        raise ValueError(f"its scores are {list(shape(scores))}, not [batch, classes, anchors]")
    n, classes, count = shape(scores)
    if shape(moves) != (n, 4 * count) or shape(anchors) != (1, count, 4):
        raise ValueError(
            f"its boxes are {list(shape(moves))} of {list(shape(anchors))}, of {count} anchors"
        )
    shown = step.emit("objects", relax.op.strided_slice(scores, [1], [1], [classes]))
    best = step.emit("best", relax.op.max(shown, [1]))
    index = step.emit("index", relax.op.argmax(shown, 1))
    label = step.emit("label", relax.op.astype(index, dtype(scores)))
    columns = [step.emit("column", relax.op.expand_dims(x, 2)) for x in (label, best)]
    boxes = _decoded(step, moves, anchors)
    rows = step.emit("rows", relax.op.concat([*columns, boxes], 2))
    overlap = attrs.real("nms_threshold", 0.5)
    is_suppressing = 0 < overlap <= 1
    listed = _listed(step, boxes, best, label, is_suppressing=is_suppressing)
    if not is_suppressing:
        return rows_at(step.emit, rows, listed, NOTHING)
    hidden = step.emit("hidden", relax.op.subtract(relax.const(-2, "int32"), listed))
    is_hidden = step.emit("is_hidden", relax.op.greater_equal(hidden, relax.const(0, "int32")))
    numbers = step.emit("numbers", relax.op.maximum(listed, hidden))
    ordered = step.emit("ordered", rows_at(step.emit, rows, numbers, NOTHING))
    labels = _column(step, ordered, 0)
    labels = step.emit("labels", relax.op.where(is_hidden, step.number(NOTHING), labels))
    first = step.emit("class", relax.op.expand_dims(labels, 2))
    rest = step.emit("rest", relax.op.strided_slice(ordered, [2], [1], [6]))
    return relax.op.concat([first, rest], 2)


def _listed(
    step: MxnetStep,
    boxes: relax.Expr,
    scores: relax.Expr,
    labels: relax.Expr,
    *,
    is_suppressing: bool,
) -> relax.Expr:
    """Return the numbers of anchors above the threshold, (n, anchors): by score, or as they are."""
    attrs, count = step.attributes, shape(scores)[1]
    least, overlap = from_score(max(attrs.real("threshold", 0.01), 0.0)), np.inf
    if is_suppressing:
        overlap = attrs.real("nms_threshold", 0.5)
    else:
        is_one = step.emit("is_one", relax.op.greater(scores, step.number(least)))
        scores, least = step.emit("equal", relax.op.astype(is_one, dtype(scores))), 0.0
    return suppressed(
        step.emit,
        boxes,
        step.emit("scores", relax.op.expand_dims(scores, 1)),
        None if attrs.flag("force_suppress", False) else labels,
        least=least,
        overlap=overlap,
        max_output=count,
        top_k=max(attrs.integer("nms_topk", -1), 0) if is_suppressing else 0,
        inclusive=True,
        lists_all=True,
    )


def _decoded(step: MxnetStep, moves: relax.Expr, anchors: relax.Expr) -> relax.Expr:
    """Return the corners of all boxes, within the image where that is asked for."""
    attrs = step.attributes
    spread = np.array(attrs.reals("variances") or (0.1, 0.1, 0.2, 0.2))
    if spread.size != 4:
        raise ValueError(f"its variances are {spread.tolist()}, not four numbers")
    x = step.emit("moves", relax.op.reshape(moves, (shape(moves)[0], shape(anchors)[1], 4)))
    boxes = step.emit("boxes", decoded(step, x, centre_and_size(step, anchors), spread))
    if not attrs.flag("clip", True):
        return boxes
    return step.emit("clipped", relax.op.clip(boxes, relax.prim_value(0.0), relax.prim_value(1.0)))


SUPPRESSION: dict[str, Converter] = {
    "MultiBoxDetection": _multibox_detection,
    "_contrib_MultiBoxDetection": _multibox_detection,
    "_contrib_box_nms": _box_nms,
}
