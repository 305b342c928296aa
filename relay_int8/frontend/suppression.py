"""Non-maximum suppression of any format: ``schedules.spec.Suppression``, and what it keeps.

A detector's last operators give a fixed number of boxes: numbers of the candidates that are kept,
then -1. What belongs to the kept ones is read by these numbers, and a constant stands behind them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.graph.dataflow import dtype, shape
from relay_int8.graph.spec_calls import kernel_call
from schedules.spec import Suppression


def from_score(least: float) -> float:
    """Return the score below which those lie that are not ``least`` or more, in float32."""
    return float(np.nextafter(np.float32(least), np.float32(-np.inf)))


def from_centres(emit: Emit, boxes: relax.Expr) -> relax.Expr:
    """Return boxes (..., 4) that have their centre, then their size, as two corners; not bound."""
    last = len(shape(boxes)) - 1
    centre, size = (
        emit("half", relax.op.strided_slice(boxes, [last], [begin], [begin + 2]))
        for begin in (0, 2)
    )
    half = emit("extent", relax.op.multiply(size, relax.const(0.5, dtype(boxes))))
    ends = [emit("corner", op(centre, half)) for op in (relax.op.subtract, relax.op.add)]
    return relax.op.concat(ends, last)


def suppressed(
    emit: Emit,
    boxes: relax.Expr,
    scores: relax.Expr,
    labels: relax.Expr | None = None,
    *,
    least: float,
    overlap: float,
    max_output: int,
    max_per_class: int = 0,
    top_k: int = 0,
    inclusive: bool = False,
    lists_all: bool = False,
) -> relax.Expr:
    """Return the numbers of the candidates that are kept, int32 (n, max_output), -1 behind them.

    Parameters
    ----------
    emit
        Binds a step under a name.
    boxes
        float32 (n, boxes, 4): the lower coordinates, then the higher ones.
    scores
        float32 (n, classes, boxes); candidate ``class * boxes + box``.
    labels
        float32 (n, boxes): boxes of different labels do not suppress each other.
    least, overlap, max_output, max_per_class, top_k, inclusive, lists_all
        As of :class:`~schedules.spec.Suppression`: scores are above ``least``; 0 for all.
    """
    (n, classes, count) = shape(scores)
    spec = Suppression(
        batch=n,
        boxes=count,
        classes=classes,
        labelled=labels is not None,
        max_output=max_output,
        max_per_class=max_per_class,
        top_k=top_k,
        inclusive=inclusive,
        lists_all=lists_all,
    )
    tensors = [boxes, scores] if labels is None else [boxes, scores, labels]
    bounds = {"least": np.array([least], np.float32), "overlap": np.array([overlap], np.float32)}
    return emit("kept", kernel_call(spec, tensors, bounds))


def highest(emit: Emit, scores: relax.Expr, *, least: float, count: int) -> relax.Expr:
    """Return where the highest of some scores are, int32 (count,), -1 behind the last one.

    Of equal scores the first one comes first.

    Parameters
    ----------
    emit
        Binds a step under a name.
    scores
        float32 (n,).
    least
        Scores are above it.
    count
        How many there may be.
    """
    (n,) = shape(scores)
    spec = Suppression(batch=1, boxes=n, compares=False, max_output=count)
    rows = emit("scores", relax.op.reshape(scores, (1, 1, n)))
    bound = {"least": np.array([least], np.float32)}
    kept = emit("highest", kernel_call(spec, [rows], bound))
    return emit("kept", relax.op.reshape(kept, (count,)))


def chosen_parts(
    emit: Emit, boxes: relax.Expr, scores: relax.Expr, kept: relax.Expr
) -> tuple[relax.Expr, relax.Expr, relax.Expr]:
    """Return boxes, classes (int32) and scores of what is kept, zeros behind it; none is bound.

    Parameters
    ----------
    emit
        Binds a step under a name.
    boxes, scores
        What :func:`suppressed` read.
    kept
        What it gave.
    """
    n, classes, count = shape(scores)
    number, size = at_least_zero(emit, kept), relax.const(count, "int32")
    box = emit("box", relax.op.floor_mod(number, size))
    corners = emit("corners", rows_at(emit, boxes, box, 0.0))
    flat = emit("flat", relax.op.reshape(scores, (n, classes * count)))
    return (
        only_where(is_kept(emit, kept, (4,)), corners, 0.0),
        relax.op.floor_divide(number, size),
        rows_at(emit, flat, kept, 0.0),
    )


def rows_at(emit: Emit, x: relax.Expr, numbers: relax.Expr, fill: float) -> relax.Expr:
    """Return the rows of each image at some numbers, (n, numbers, ...); ``fill`` where one is -1.

    The last step is not bound, as those of all functions that give what a network may return.

    Parameters
    ----------
    emit
        Binds a step under a name.
    x
        (n, rows, ...).
    numbers
        int32 (n, numbers).
    """
    places = emit("places", relax.op.astype(at_least_zero(emit, numbers), "int64"))
    column = emit("column", relax.op.expand_dims(places, 2))
    rows = emit("rows", relax.op.gather_nd(x, column, 1))
    return only_where(is_kept(emit, numbers, shape(x)[2:]), rows, fill)


def at_least_zero(emit: Emit, numbers: relax.Expr) -> relax.Expr:
    """Return numbers of candidates, 0 where there is none."""
    return emit("numbers", relax.op.maximum(numbers, relax.const(0, dtype(numbers))))


def is_kept(emit: Emit, numbers: relax.Expr, behind: Sequence[int] = ()) -> relax.Expr:
    """Say where there is a candidate, broadcast against (n, numbers, *behind)."""
    found = emit("is_kept", relax.op.greater_equal(numbers, relax.const(0, dtype(numbers))))
    if not behind:
        return found
    return emit("is_row", relax.op.expand_dims(found, list(range(2, 2 + len(behind)))))


def only_where(condition: relax.Expr, x: relax.Expr, fill: float) -> relax.Expr:
    """Return x, or ``fill`` where a condition does not hold."""
    return relax.op.where(condition, x, relax.const(fill, dtype(x)))
