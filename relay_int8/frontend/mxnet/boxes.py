"""Boxes in MXNet's two forms, two corners or centre and size, and as moves of anchors."""

from __future__ import annotations

import numpy as np
from tvm import relax

from relay_int8.frontend.mxnet.step import MxnetStep


def halves(step: MxnetStep, boxes: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """Return the first and the last two numbers of boxes, (n, boxes, 4)."""
    first, last = (
        step.emit("pair", relax.op.strided_slice(boxes, [2], [begin], [begin + 2]))
        for begin in (0, 2)
    )
    return first, last


def centre_and_size(step: MxnetStep, boxes: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """Return the middles and the extents of boxes that have two corners."""
    low, high = halves(step, boxes)
    total = step.emit("total", relax.op.add(low, high))
    middle = step.emit("middle", relax.op.multiply(total, step.number(0.5)))
    return middle, step.emit("size", relax.op.subtract(high, low))


def corners(step: MxnetStep, middle: relax.Expr, size: relax.Expr) -> relax.Expr:
    """Return boxes as two corners; the last step is not bound."""
    half = step.emit("extent", relax.op.multiply(size, step.number(0.5)))
    ends = [relax.op.subtract(middle, half), relax.op.add(middle, half)]
    return relax.op.concat([step.emit("corner", end) for end in ends], 2)


def decoded(
    step: MxnetStep,
    x: relax.Expr,
    anchors: tuple[relax.Expr, relax.Expr],
    spread: np.ndarray,
    limit: float = -1.0,
) -> relax.Expr:
    """Return the corners of boxes that are moves and stretches of anchors.

    Parameters
    ----------
    step
        Whose node it is.
    x
        float32 (n, boxes, 4): moves of the middle, in extents, and logarithms of stretches.
    anchors
        Their middles and extents.
    spread
        What the four numbers are multiplied by.
    limit
        The largest logarithm; none where it is not above zero.
    """
    middle, size = anchors
    scaled = step.emit("scaled", relax.op.multiply(x, relax.const(spread.astype("float32"))))
    move, stretch = halves(step, scaled)
    if limit > 0:
        stretch = step.emit("limited", relax.op.minimum(stretch, step.number(limit)))
    moved = step.emit("moved", relax.op.multiply(move, size))
    middle = step.emit("centre", relax.op.add(moved, middle))
    grown = step.emit("grown", relax.op.multiply(step.emit("exp", relax.op.exp(stretch)), size))
    return corners(step, middle, grown)
