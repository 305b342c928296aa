"""ONNX's operators that give as many rows as values say: NonZero, Compress, NonMaxSuppression.

TopK of a counted tensor is here too: rows that are not there are below all others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import onnx
from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.frontend.onnx.counted.carried import refusal
from relay_int8.frontend.onnx.counted.rows import Counted, filled, numbers, places
from relay_int8.frontend.onnx.operators.constant_nodes import attribute
from relay_int8.frontend.onnx.operators.operands import known_array, known_integers
from relay_int8.frontend.suppression import from_centres, highest, suppressed
from relay_int8.graph.dataflow import dtype, shape
from schedules.spec.operator_spec import FLOAT32_MAX

MOST_ROWS = 1 << 22
"""That a suppression makes room for."""


def true_places(
    emit: Emit, x: relax.Expr, counted: Counted | None
) -> tuple[relax.Expr, relax.Expr]:
    """Return the places of what is not zero in ``x`` as a row, int64, and which are there."""
    if counted is not None:
        x = filled(emit, x, counted, 0)
    if dtype(x) != "bool":
        x = emit("mask", relax.op.not_equal(x, relax.const(0, dtype(x))))
    return places(emit, emit("flat", relax.op.reshape(x, (math.prod(shape(x)),))))


def coordinates(emit: Emit, place: relax.Expr, dims: Sequence[int]) -> relax.Expr:
    """Return int64 (axes, places): where places of a tensor in row order are; not bound."""
    rows = []
    for axis, extent in enumerate(dims):
        step = math.prod(dims[axis + 1 :])
        row = place
        if step > 1:
            row = emit("row", relax.op.floor_divide(row, relax.const(step, "int64")))
        if axis:
            row = emit("row", relax.op.floor_mod(row, relax.const(extent, "int64")))
        rows.append(row)
    return relax.op.stack(rows, 0)


def top_k(
    emit: Emit, node: onnx.NodeProto, x: relax.Expr, counted: Counted, k: int
) -> tuple[relax.Expr, relax.Expr, relax.Expr]:
    """Return the highest values of a counted vector, where they are, and which are there."""
    (n,) = shape(x)
    if attribute(node, "sorted") == 0 or dtype(x) != "float32":
        raise refusal()
    scores = x
    if attribute(node, "largest") == 0:
        scores = emit("negative", relax.op.negative(scores))
    # What is not there is minus infinity, which is not above the least; a score may be, too.
    scores = emit("finite", relax.op.maximum(scores, relax.const(-FLOAT32_MAX, "float32")))
    scores = filled(emit, scores, counted, -math.inf)
    kept = highest(emit, scores, least=-math.inf, count=min(k, n))
    place, live = numbers(emit, kept)
    return relax.op.take(x, place, 0), place, live


def kept_boxes(
    emit: Emit,
    inputs: Sequence[Any],
    counted: Sequence[Counted | None],
    by_centre: bool,
    read: int | None,
) -> tuple[relax.Expr, relax.Expr]:
    """Return what ONNX's NonMaxSuppression keeps: image, class and box, and which are there.

    Parameters
    ----------
    emit
        Binds a step under a name.
    inputs
        Boxes (n, boxes, 4), scores (n, classes, boxes), then constants: how many boxes of a class
        are kept at most, the overlap and the score above which boxes are left out.
    counted
        Of both, which boxes there are.
    by_centre
        Whether boxes are centres and sizes, not two opposite corners.
    read
        How many rows of the result are read; None for all.

    Returns
    -------
    int64 (rows, 3), not bound, and bool (rows,); image by image and class by class, falling scores.
    """
    boxes, scores, *rest = inputs
    most, overlap, least = _limits(rest)
    if counted[1] is not None:
        if counted[1].axis != 2:
            raise refusal()
        scores = filled(emit, scores, counted[1], -math.inf)
    if counted[0] is not None and (counted[0].axis != 1 or counted[1] is None):
        raise refusal()
    n, classes, count = shape(scores)
    kept_each, groups = min(most, count), n * classes
    if groups == 1 and read is not None:
        kept_each = min(kept_each, read)
    if groups * kept_each > MOST_ROWS:
        raise NotImplementedError(
            f"it may keep {kept_each} boxes of {classes} classes; {MOST_ROWS} rows are the most: "
            "export it with fewer boxes for each class (max_output_boxes_per_class)"
        )
    corners = _two_corners(emit, boxes, by_centre)
    if classes > 1:  # each class by itself, as the rows are in the order of classes
        apart = emit("apart", relax.op.expand_dims(corners, 1))
        corners = emit("corners", relax.op.broadcast_to(apart, (n, classes, count, 4)))
    kept = suppressed(
        emit,
        emit("boxes", relax.op.reshape(corners, (groups, count, 4))),
        emit("scores", relax.op.reshape(scores, (groups, 1, count))),
        least=least,
        overlap=overlap,
        max_output=kept_each,
    )
    box, live = numbers(emit, emit("kept", relax.op.reshape(kept, (groups * kept_each,))))
    if groups == 1:
        first = emit("first", relax.op.zeros((kept_each,), "int64"))
        return relax.op.stack([first, first, box], 1), live
    place, live = places(emit, live)
    group = emit("group", relax.op.floor_divide(place, relax.const(kept_each, "int64")))
    size = relax.const(classes, "int64")
    columns = [
        emit("image", relax.op.floor_divide(group, size)),
        emit("class", relax.op.floor_mod(group, size)),
        emit("box", relax.op.take(box, place, 0)),
    ]
    return relax.op.stack(columns, 1), live


def _limits(given: Sequence[Any]) -> tuple[int, float, float]:
    """Return how many boxes of a class are kept, the highest overlap, and the least score."""
    most, overlap, least = (*given, None, None, None)[:3]
    count = 0 if most is None else known_integers(most, "its max_output_boxes_per_class is")[0]
    if count < 1:
        raise NotImplementedError("it keeps no box: max_output_boxes_per_class is 0 or left out")
    bounds = [
        default if value is None else float(known_array(value, f"its {name} is").reshape(-1)[0])
        for value, name, default in (
            (overlap, "iou_threshold", 0.0),
            (least, "score_threshold", -math.inf),
        )
    ]
    return count, bounds[0], bounds[1]


def _two_corners(emit: Emit, boxes: relax.Expr, by_centre: bool) -> relax.Expr:
    """Return boxes as their lower corner, then the upper one."""
    if by_centre:
        return emit("corners", from_centres(emit, boxes))
    first, second = (
        emit("corner", relax.op.strided_slice(boxes, [2], [begin], [begin + 2])) for begin in (0, 2)
    )
    ends = [relax.op.minimum(first, second), relax.op.maximum(first, second)]
    return emit("corners", relax.op.concat([emit("corner", end) for end in ends], 2))
