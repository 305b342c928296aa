"""RoiAlign of all formats: TVM's operator, with what it leaves out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.graph.dataflow import dtype


def roi_align(
    emit: Emit,
    x: relax.Expr,
    boxes: relax.Expr,
    size: Sequence[int],
    scale: float,
    samples: int,
    *,
    aligned: bool,
) -> relax.Expr:
    """Return the average of interpolated samples of each part of each box.

    Parameters
    ----------
    emit
        Binds an expression to a name.
    x
        float32 (n, c, h, w).
    boxes
        float32 (boxes, 5): image, x1, y1, x2, y2.
    size
        Rows and columns of parts.
    scale
        What corners are multiplied by.
    samples
        Of a part along each axis; as many as it has pixels where it is not above zero.
    aligned
        Whether scaled boxes move by half a pixel, which TVM's operator does not do, and may have no
        extent: they give zeros, where TVM never writes its sum of no samples.
    """
    if aligned:
        half = 0.5 / scale
        shift = relax.const(np.array([[0, half, half, half, half]], dtype(boxes)))
        boxes = emit("moved", relax.op.subtract(boxes, shift))
    y = relax.op.vision.roi_align(x, boxes, tuple(size), scale, samples, aligned)
    if samples > 0 or not aligned:
        return y
    low, high = (
        emit(name, relax.op.strided_slice(boxes, [1], [first], [first + 2]))
        for name, first in (("low", 1), ("high", 3))
    )
    extents = emit("extents", relax.op.subtract(high, low))
    least = emit("least", relax.op.min(extents, [1]))
    is_wide = emit("is_wide", relax.op.greater(least, relax.const(0.0, dtype(boxes))))
    kept = emit("kept", relax.op.reshape(is_wide, (-1, 1, 1, 1)))
    return relax.op.where(kept, emit("averages", y), relax.const(0.0, dtype(x)))
