"""MXNet operators that pool regions of an image, as detectors use them."""

from __future__ import annotations

import numpy as np
from tvm import relax

from relay_int8.frontend.mxnet.boxes import centre_and_size, decoded, halves
from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.frontend.regions import roi_align as of_boxes
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
    """Average interpolated samples of each part of each box."""
    attrs = step.attributes
    if attrs.flag("position_sensitive", False):
        raise NotImplementedError("position-sensitive pooling of regions")
    x, boxes, size, scale = _operands(step)
    samples, aligned = attrs.integer("sample_ratio", -1), attrs.flag("aligned", False)
    return of_boxes(step.emit, x, boxes, size, scale, samples, aligned=aligned)


def anchor_boxes(step: MxnetStep) -> relax.Expr:
    """Return the corners of boxes around each pixel: all sizes of the first ratio, then the others.

    Coordinates are shares of the image, (1, rows * columns * boxes, 4); widths of a box of size s
    and ratio r are ``s * sqrt(r)`` of the image's height, as MXNet has it.
    """
    attrs, dims = step.attributes, shape(step.x)
    if len(dims) != 4:
        raise ValueError(f"its input is {list(dims)}, not a batch of images")
    rows, columns = dims[2:]
    sizes, ratios = attrs.reals("sizes") or (1.0,), attrs.reals("ratios") or (1.0,)
    steps, offsets = attrs.reals("steps") or (-1.0, -1.0), attrs.reals("offsets") or (0.5, 0.5)
    if min((*sizes, *ratios)) <= 0 or len(steps) != 2 or len(offsets) != 2:
        raise ValueError(f"its sizes are {sizes}, its ratios {ratios}, its steps {steps}")
    step_y, step_x = steps if min(steps) > 0 else (1 / rows, 1 / columns)
    root = np.sqrt(np.array(ratios))
    shapes = [(size, root[0]) for size in sizes] + [(sizes[0], ratio) for ratio in root[1:]]
    halves = np.array(
        [(size * rows / columns * ratio / 2, size / ratio / 2) for size, ratio in shapes]
    )
    y, x = np.meshgrid(
        (np.arange(rows) + offsets[0]) * step_y,
        (np.arange(columns) + offsets[1]) * step_x,
        indexing="ij",
    )
    centers = np.stack([x, y], -1)[:, :, None]
    boxes = np.concatenate([centers - halves, centers + halves], -1).reshape(1, -1, 4)
    boxes = boxes.clip(0, 1) if attrs.flag("clip", False) else boxes
    return relax.const(boxes.astype("float32"))


def decoded_boxes(step: MxnetStep) -> relax.Expr:
    """Return the corners of boxes that are written as moves and stretches of anchors."""
    x, anchors = step.operands("data", "anchors")
    attrs = step.attributes
    kind, limit = attrs.text("format", "center"), attrs.real("clip", -1.0)
    spread = np.array([attrs.real(f"std{i}", 1.0) for i in range(4)])
    if kind == "corner":
        pair = centre_and_size(step, anchors)
    elif kind == "center":
        pair = halves(step, anchors)
    else:
        raise ValueError(f"its format is {kind!r}, not center or corner")
    return decoded(step, x, pair, spread, limit)


REGIONS: dict[str, Converter] = {
    "ROIPooling": roi_pooling,
    "MultiBoxPrior": anchor_boxes,
    "_contrib_MultiBoxPrior": anchor_boxes,
    "_contrib_ROIAlign": roi_align,
    "_contrib_box_decode": decoded_boxes,
}
