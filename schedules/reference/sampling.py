"""NumPy reference of deformable sampling, in logical layout."""

from __future__ import annotations

import numpy as np

from schedules.reference.exact import fma, to_integer
from schedules.spec import Sample2d
from schedules.template import Arrays

Sides = tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def sample2d(spec: Sample2d, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return y of a sampling."""
    x, taps = tensors["x"], spec.taps
    n, area, parts = len(x), spec.out_size, spec.parts
    offsets = tensors["offset"].reshape(n, parts, taps, 2, *area)
    rows, cols = (_sides(spec, axis, offsets[:, :, :, axis]) for axis in (0, 1))
    centred = x if spec.x == "float32" else x.astype(np.int32) - params["z"][0]
    pixels = centred.astype(np.float32).reshape(n, parts, spec.channels // parts, -1)
    total = None
    for row, a in rows:
        for col, b in cols:
            weight = (a * b).astype(np.float32)
            if spec.masked:
                weight = weight * tensors["mask"].reshape(weight.shape)
            if spec.x != "float32":
                weight = weight * params["m"]
            flat = (row * spec.width + col).reshape(n, parts, 1, -1)
            corner = np.take_along_axis(pixels, flat, axis=3)
            weight = weight.reshape(flat.shape)
            total = corner * weight if total is None else fma(corner, weight, total)
    t = _by_tap(spec, np.asarray(total, np.float32))
    if spec.x == "float32":
        return t
    return to_integer(t, params["z"][1], params["clamp"], spec.y)


def _sides(spec: Sample2d, axis: int, offset: np.ndarray) -> Sides:
    """Return index and weight of the lower and the upper pixel along one axis."""
    size = (spec.height, spec.width)[axis]
    tap = np.unravel_index(np.arange(spec.taps), spec.kernel)[axis]
    out = np.arange(spec.out_size[axis]) * spec.strides[axis] - spec.padding[axis]
    base = tap[:, None] * spec.dilation[axis] + out
    p = base[:, :, None] if axis == 0 else base[:, None, :]
    with np.errstate(invalid="ignore"):
        p = p.astype(np.float32) + offset
        inside = (p >= 0 if spec.rim == "edge" else p > -1) & (p < size)
    p = np.where(inside, np.minimum(p, np.float32(size - 1)) if spec.rim == "edge" else p, -1)
    p = p.astype(np.float32)
    floor = np.floor(p)
    fraction = p - floor
    index = floor.astype(np.int64)
    lower = np.where(floor >= 0, np.float32(1) - fraction, np.float32(0))
    upper = np.where(floor < size - 1, fraction, np.float32(0))
    return (np.maximum(index, 0), lower), (np.minimum(index + 1, size - 1), upper)


def _by_tap(spec: Sample2d, t: np.ndarray) -> np.ndarray:
    """Return (n, parts, channels, taps and places) as (n, group, tap, channel, oh, ow), flat."""
    n, groups = len(t), spec.groups
    apart = t.reshape(n, groups, spec.channels // groups, spec.taps, *spec.out_size)
    moved = apart.transpose(0, 1, 3, 2, 4, 5)
    return np.ascontiguousarray(moved.reshape(n, -1, *spec.out_size))
