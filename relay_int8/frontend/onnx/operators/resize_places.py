"""ONNX's Resize by scales that give a part of a pixel: of a size and a half, say.

The size of the result is rounded down, but places are computed with the scale: Relax's resize2d,
which divides the sizes, would have others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.resampling import FILTERS, filtered_at, taken_at
from relay_int8.graph.dataflow import shape

WITHOUT_SCALE = ("align_corners", "tf_crop_and_resize")
"""Coordinates that follow from the sizes alone."""
OLD_NEAREST = "simple"
"""As a nearest_mode: how pixels were chosen before opset 11."""
VOLUME = 5
"""Axes of one."""

NEAREST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda at: np.ceil(at - np.float32(0.5)),
    "round_prefer_ceil": lambda at: np.floor(at + np.float32(0.5)),
    "floor": np.floor,
    "ceil": np.ceil,
}


def resize_by_scales(
    bb: relax.BlockBuilder,
    x: Any,
    wanted: list[int],
    scales: dict[int, float],
    given: dict[str, Any],
    *,
    antialias: bool,
) -> relax.Expr:
    """Resize by products with the weights of pixels, or by the numbers of the nearest ones."""
    filter_name = given.get("mode", b"nearest").decode()
    mode = given.get("coordinate_transformation_mode", b"half_pixel").decode()
    # The middle of an axis that has none may round to either side.
    undecided = filter_name == "nearest" and mode == "half_pixel_symmetric"
    is_volume = len(wanted) == VOLUME and filter_name != "nearest"
    if mode in WITHOUT_SCALE or antialias or undecided or is_volume:
        exact = [extent * scales.get(axis, 1.0) for axis, extent in enumerate(shape(x))]
        raise NotImplementedError(
            f"its scales give a part of a pixel ({exact}): export it with sizes"
        )
    places = [
        _places(mode, extent, wanted[axis], np.float32(scales.get(axis, 1.0)))
        for axis, extent in enumerate(shape(x))
        if axis > 1
    ]
    if filter_name != "nearest":
        if filter_name not in FILTERS:
            raise NotImplementedError(f"mode {filter_name}; nearest, linear and cubic are read")
        kernel = partial(FILTERS[filter_name], sharpness=float(given.get("cubic_coeff_a", -0.75)))
        inside = bool(given.get("exclude_outside", 0))
        return filtered_at(lambda _, y: bb.emit(y), x, places, kernel, inside=inside)
    nearest = given.get("nearest_mode", b"round_prefer_floor").decode()
    if nearest not in (*NEAREST, OLD_NEAREST):
        raise NotImplementedError(f"nearest_mode {nearest}; {', '.join(NEAREST)} are read")
    for i, (at, extent) in enumerate(zip(places, shape(x)[2:], strict=True)):
        old = "floor" if len(at) > extent else "ceil"
        places[i] = NEAREST[old if nearest == OLD_NEAREST else nearest](at)
    return taken_at(lambda _, y: bb.emit(y), x, places)


def _places(mode: str, size: int, count: int, scale: np.float32) -> np.ndarray:
    """Return where the pixels of an axis come from, in float32 as ONNX Runtime computes it."""
    if mode == "pytorch_half_pixel" and count == 1:
        return np.zeros(1, "float32")
    middle, start = np.float32(0.0 if mode == "asymmetric" else 0.5), np.float32(0.0)
    if mode == "half_pixel_symmetric":
        start = np.float32(size / 2) * (1 - np.float32(count) / (scale * np.float32(size)))
    at: np.ndarray = start + (np.arange(count, dtype="float32") + middle) / scale - middle
    return at
