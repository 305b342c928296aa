"""ONNX's RoiAlign; ``frontend.regions`` has what it becomes."""

from __future__ import annotations

from typing import Any

from tvm import relax

from relay_int8.frontend.regions import roi_align as of_boxes
from relay_int8.graph.dataflow import dtype

FIRST_OF_HALF_PIXELS = 16
"""Opset from which RoiAlign takes the middles of pixels unless it says otherwise."""


def roi_align(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Average interpolated samples of each part of each box; half_pixel moves scaled boxes."""
    if attributes.get("mode", b"avg") != b"avg":
        raise NotImplementedError(
            "it takes the maximum of weighted pixels, TVM that of interpolated values; use avg"
        )
    x, boxes, images = inputs
    is_new = attributes["tvm_custom"]["opset"] >= FIRST_OF_HALF_PIXELS
    default = b"half_pixel" if is_new else b"output_half_pixel"
    places = attributes.get("coordinate_transformation_mode", default)
    if places not in (b"half_pixel", b"output_half_pixel"):
        raise NotImplementedError(f"coordinate_transformation_mode {places.decode()}")
    column = bb.emit(relax.op.expand_dims(bb.emit(relax.op.astype(images, dtype(boxes))), 1))
    return of_boxes(
        lambda _, value: bb.emit(value),
        x,
        bb.emit(relax.op.concat([column, boxes], 1)),
        [int(attributes.get(name, 1)) for name in ("output_height", "output_width")],
        float(attributes.get("spatial_scale", 1.0)),
        int(attributes.get("sampling_ratio", 0)),
        aligned=places == b"half_pixel",
    )
