"""NumPy reference of bilinear resizes, in logical layout."""

from __future__ import annotations

import numpy as np

from schedules.reference.exact import fma
from schedules.reference.scaling import factors, scale
from schedules.spec import Bilinear, Interpolate
from schedules.spec.interpolating import WEIGHT_BITS
from schedules.template import Arrays


def interpolate(spec: Interpolate, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return y of a bilinear resize."""
    z_x, z_y = params["z"]
    x = tensors["x"].astype(np.int64) - z_x
    for axis, name in ((2, "rows"), (3, "columns")):
        first, second, weight = params[name].reshape(3, -1)
        weight = weight.reshape(-1, *(1,) * (3 - axis))
        kept = x.take(first, axis) * ((1 << WEIGHT_BITS) - weight)
        x = kept + x.take(second, axis) * weight
    return scale(spec, x.astype(np.int32), factors(spec, params, "m"), z_y, params["clamp"])


def bilinear(spec: Bilinear, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return y of a bilinear resize of floats."""
    y = tensors["x"]
    for axis, taps, weights in ((3, "columns", "column_weights"), (2, "rows", "row_weights")):
        first, second = (y.take(part, axis) for part in params[taps].reshape(2, -1))
        y = fma(second - first, params[weights].reshape(-1, *(1,) * (3 - axis)), first)
    return y
