"""ONNX's Resize of images, where Relax's resize2d computes the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from relay_int8.frontend.onnx.operators.operands import known_array
from relay_int8.frontend.onnx.operators.resize_places import (
    OLD_NEAREST,
    VOLUME,
    WITHOUT_SCALE,
    resize_by_scales,
)
from relay_int8.frontend.resampling import (
    FILTERS,
    aligned_pixel,
    filter_weights,
    resized_by_products,
)
from relay_int8.graph.dataflow import constant, shape

SEQUENCE = 3
"""Axes of one: it is resized as an image of one row. A row has no corners to align: where they are
aligned, its channels are the rows."""
VOLUME_MODES = ("nearest", "linear")

POLICIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "not_larger": np.min,
    "not_smaller": np.max,
}
"""How the aspect ratio is kept -> which of the axes' scales all of them get."""

MIDDLES = (b"half_pixel", b"pytorch_half_pixel")


def resize(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Resize by TVM's importer, after what it would read otherwise is refused.

    ONNX computes places with the scales of the file, Relax with the ratio of the sizes: they are
    the same where a scale gives a whole size; others are resized by ``resize_places``. To align
    corners ONNX Runtime looks at the sizes, the standard at the part of a pixel too.
    """
    given = dict(attributes)
    x, roi, scales, sizes = (*inputs, None, None, None)[:4]
    antialias = bool(given.pop("antialias", 0))
    if given.get("exclude_outside", 0) and given.get("mode") != b"cubic" and not antialias:
        raise NotImplementedError("exclude_outside is of cubic filters alone")
    x_shape = shape(x)
    if len(x_shape) not in (SEQUENCE, SEQUENCE + 1, VOLUME):
        raise NotImplementedError(
            f"it resizes {list(x_shape)}; only sequences, images and volumes are read"
        )
    axes = [int(axis) % len(x_shape) for axis in given.pop("axes", range(len(x_shape)))]
    policy = given.pop("keep_aspect_ratio_policy", b"stretch").decode()
    if policy != "stretch" and sizes is not None:
        scales, sizes = _proportional(x_shape, axes, sizes, policy)
    wanted = _sizes(x_shape, axes, scales, sizes)
    mode = given.get("coordinate_transformation_mode", b"half_pixel").decode()
    crops = mode == "tf_crop_and_resize"  # other modes ignore a region of interest
    if _is_channels_last(x_shape, wanted, axes) and not crops:
        return _turned(bb, x, [_channels_first(extents) for extents in (scales, sizes)], attributes)
    if wanted[:2] != list(x_shape[:2]):
        raise NotImplementedError(f"it resizes {list(x_shape)} to {wanted}, batch or channels too")
    if len(wanted) == VOLUME:
        _refuse_volume(given.get("mode", b"nearest").decode(), mode, antialias=antialias)
    if mode == "align_corners" and (pixel := aligned_pixel(x, wanted[2:])) is not None:
        return pixel
    factors = None if scales is None or crops else constant(scales)
    if factors is not None and factors.size:
        by_axis = dict(zip(axes, factors.tolist(), strict=True))
        if not _are_whole(by_axis, x_shape):
            return resize_by_scales(bb, x, wanted, by_axis, given, antialias=antialias)
    if mode == "half_pixel_symmetric":  # differs where a scale gives a part of a pixel alone
        given["coordinate_transformation_mode"] = b"half_pixel"
    if given.get("mode", b"nearest") == b"nearest":
        given |= _nearest(given, x_shape, wanted)
    if antialias:
        return _without_aliases(bb, x, wanted, given)
    roi = _whole_roi(roi, axes, len(x_shape)) if crops else None
    if len(wanted) != SEQUENCE:
        return _resized(bb, x, roi, wanted, given)
    n, c, length = x_shape
    if mode == "align_corners" and c > 1:
        rows = bb.emit(relax.op.reshape(x, (n, 1, c, length)))
        y = bb.emit(_resized(bb, rows, roi, [n, 1, c, wanted[2]], given))
        return relax.op.reshape(y, wanted)
    if mode in WITHOUT_SCALE:
        raise NotImplementedError(f"{mode} of a sequence; use half_pixel or asymmetric")
    image = bb.emit(relax.op.reshape(x, (n, c, 1, length)))
    row = bb.emit(_resized(bb, image, roi, [*wanted[:2], 1, wanted[2]], given))
    return relax.op.reshape(row, wanted)


def _are_whole(scales: dict[int, float], x_shape: tuple[int, ...]) -> bool:
    exact = np.array([x_shape[axis] * scale for axis, scale in scales.items()])
    return np.allclose(exact, np.rint(exact), rtol=0, atol=1e-3)


def _is_channels_last(x_shape: tuple[int, ...], wanted: list[int], axes: list[int]) -> bool:
    """Whether an image of (n, h, w, c) is resized, as layouts of ONNX Runtime have it."""
    is_image = len(x_shape) == SEQUENCE + 1 == len(axes)
    kept = [extent == size for extent, size in zip(wanted, x_shape, strict=True)]
    return is_image and kept[0] and kept[-1] and not kept[1]


def _channels_first(extents: Any) -> Any:
    array = None if extents is None else constant(extents)
    return extents if array is None or not array.size else relax.const(array[[0, 3, 1, 2]])


def _turned(
    bb: relax.BlockBuilder, x: Any, extents: list[Any], attributes: dict[str, Any]
) -> relax.Expr:
    """Resize an image whose channels are last."""
    image = bb.emit(relax.op.permute_dims(x, [0, 3, 1, 2]))
    y = bb.emit(resize(bb, [image, None, *extents], attributes | {"axes": range(SEQUENCE + 1)}))
    return relax.op.permute_dims(y, [0, 2, 3, 1])


def _refuse_volume(filter_name: str, mode: str, *, antialias: bool) -> None:
    if filter_name not in VOLUME_MODES or antialias or mode == "tf_crop_and_resize":
        kind = f"{filter_name}{' with antialias' if antialias else ''} at {mode}"
        raise NotImplementedError(
            f"it resizes a volume, {kind}; nearest and linear are read, of whole volumes"
        )


def _resized(
    bb: relax.BlockBuilder, x: Any, roi: Any, wanted: list[int], given: dict[str, Any]
) -> relax.Expr:
    full = relax.const(np.array(wanted, "int64"))
    arguments = onnx_frontend.onnx_input([x, roi, None, full])
    return onnx_frontend.Resize._impl_v18(bb, arguments, given, [{}, {}])


def _without_aliases(
    bb: relax.BlockBuilder, x: Any, wanted: list[int], given: dict[str, Any]
) -> relax.Expr:
    """Resize each axis by a product with the weights of the stretched filter."""
    mode = given.get("mode", b"nearest").decode()
    places = given.get("coordinate_transformation_mode", b"half_pixel")
    if mode not in FILTERS or places not in MIDDLES:
        raise NotImplementedError(
            f"antialias of mode {mode} at {places.decode()}; linear and cubic at half_pixel are "
            "read"
        )
    if 0 in (*shape(x), *wanted) or (places == MIDDLES[1] and 1 in wanted[2:]):
        raise NotImplementedError(f"antialias from {list(shape(x))} to {wanted}")
    kernel = partial(FILTERS[mode], sharpness=float(given.get("cubic_coeff_a", -0.75)))
    inside = bool(given.get("exclude_outside", 0))
    weights = partial(filter_weights, kernel=kernel, inside=inside)
    return resized_by_products(lambda _, y: bb.emit(y), x, wanted[2:], weights)


def _nearest(
    given: dict[str, Any], x_shape: tuple[int, ...], wanted: list[int]
) -> dict[str, bytes]:
    """Return another way to say which pixel is the nearest, where one is needed.

    Old opsets take the one before where the image grows, the one behind where it shrinks, as ONNX
    Runtime has it. By whole factors the rounded middles of pixels are copies of one: as integers
    can be moved.
    """
    if given.get("nearest_mode") == OLD_NEAREST.encode():
        if min(wanted) < 1 or all(n >= size for n, size in zip(wanted, x_shape, strict=True)):
            return {"nearest_mode": b"floor"}
        if any(n > size for n, size in zip(wanted, x_shape, strict=True)):
            raise NotImplementedError(
                "it enlarges one axis and shrinks another, nearest, by an opset before 11: export "
                "it with a newer one"
            )
        return {"nearest_mode": b"ceil"}
    middles = given.get("coordinate_transformation_mode", b"half_pixel") in MIDDLES
    rounded = given.get("nearest_mode", b"round_prefer_floor").startswith(b"round")
    whole = all(n % size == 0 for n, size in zip(wanted, x_shape, strict=True))
    if middles and rounded and whole:
        return {"coordinate_transformation_mode": b"asymmetric", "nearest_mode": b"floor"}
    return {}


def _whole_roi(roi: Any, axes: list[int], rank: int) -> Any:
    """Return the region of all axes: their starts, then their ends, as parts of the whole."""
    given = None if roi is None else constant(roi)
    if given is None:
        raise NotImplementedError("its region of interest is computed, not constant")
    if given.size != 2 * len(axes):
        raise ValueError(f"its region of interest has {given.size} numbers for axes {axes}")
    region = np.array([[0.0] * rank, [1.0] * rank], "float32")
    region[:, axes] = given.reshape(2, -1)
    return relax.const(region.reshape(-1))


def _proportional(
    x_shape: tuple[int, ...], axes: list[int], sizes: Any, policy: str
) -> tuple[relax.Constant, relax.Constant]:
    """Return one scale for all axes, by which none or only one is larger than wanted; and sizes."""
    extents = np.array([x_shape[axis] for axis in axes])
    ratios = known_array(sizes, "its sizes are") / extents.astype("float32")
    if policy not in POLICIES:
        raise NotImplementedError(
            f"keep_aspect_ratio_policy {policy}; {', '.join(POLICIES)} and stretch are read"
        )
    scale = POLICIES[policy](ratios).astype("float32")
    rounded = np.floor(extents * scale + np.float32(0.5)).astype("int64")
    return relax.const(np.full(len(axes), scale)), relax.const(rounded)


def _sizes(x_shape: tuple[int, ...], axes: list[int], scales: Any, sizes: Any) -> list[int]:
    """Return the whole shape that is wanted."""
    result_shape = list(x_shape)
    written, factors = (None if given is None else constant(given) for given in (sizes, scales))
    if written is not None and written.size:
        extents = written.tolist()
    elif factors is not None:
        spans = np.asarray([x_shape[axis] for axis in axes]) * factors.astype("float64")
        extents = np.floor(spans + 1e-6).tolist()
    else:
        raise NotImplementedError("its sizes are computed, not constant")
    for axis, extent in zip(axes, extents, strict=True):
        result_shape[axis] = int(extent)
    return result_shape
