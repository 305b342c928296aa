"""MXNet operators that pool regions of an image, as detectors use them."""

from __future__ import annotations

import numpy as np
from tvm import relax

from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.graph.dataflow import shape


def _operands(step: MxnetStep) -> tuple[relax.Expr, relax.Expr, tuple[int, ...], float]:
    """Return image, boxes (image, x1, y1, x2, y2), pooled size and scale of the boxes."""
    x, boxes = step.operands("data", "rois")
    if len(shape(x)) != 4 or len(shape(boxes)) != 2 or shape(boxes)[1] != 5:
        raise ValueError(
            f"its inputs are {list(shape(x))} and {list(shape(boxes))}, not images and [boxes, 5]"
        )
    size = step.attributes.sizes("pooled_size", (1, 1), least=1)
    scale = step.attributes.real("spatial_scale")
    if scale <= 0:
        raise ValueError(f"its spatial_scale is {scale}")
    return x, boxes, size, scale


def roi_pooling(step: MxnetStep) -> relax.Expr:
    """Take the largest value of each part of each box; corners are rounded to pixels."""
    x, boxes, size, scale = _operands(step)
    return relax.op.vision.roi_pool(x, boxes, size, scale)


def roi_align(step: MxnetStep) -> relax.Expr:
    """Average interpolated samples of each part of each box.

    ``aligned`` also moves boxes by half a pixel, which TVM's operator does not.
    """
    attrs = step.attributes
    if attrs.flag("position_sensitive", False):
        raise NotImplementedError("position-sensitive pooling of regions")
    x, boxes, size, scale = _operands(step)
    samples, aligned = attrs.integer("sample_ratio", -1), attrs.flag("aligned", False)
    if aligned:
        half = 0.5 / scale
        shift = relax.const(np.array([[0, half, half, half, half]], "float32"))
        boxes = step.emit("boxes", relax.op.subtract(boxes, shift))
    return relax.op.vision.roi_align(x, boxes, size, scale, samples, aligned)


REGIONS: dict[str, Converter] = {
    "ROIPooling": roi_pooling,
    "_contrib_ROIAlign": roi_align,
}
