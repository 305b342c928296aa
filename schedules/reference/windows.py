"""NumPy reference of convolution, dense layers and pooling, in logical layout.

Integer sums are taken in float64, where they are exact below 2**53; the specification bounds them
by 2**31.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from schedules.reference.exact import clamp, fma
from schedules.reference.scaling import epilogue, factors, of_sum, scale
from schedules.spec import Conv2d, Dense, Pair, Pool2d
from schedules.template import Arrays


def conv2d(spec: Conv2d, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return y of a convolution."""
    x = tensors["x"].astype(np.float64)
    if spec.x != "float32":
        x -= params["z"][0]
    w, groups = params["w"].astype(np.float64), spec.groups
    if spec.half:
        x, w = rounded_to_half(x), rounded_to_half(w)
    top, left, _, _ = spec.padding
    acc = np.zeros((x.shape[0], spec.out_channels, *spec.out_size))
    for row, col, patch in _patches(spec, x, (top, left), 0):
        taps = w[:, :, row, col].reshape(groups, -1, w.shape[1])
        grouped = patch.reshape(x.shape[0], groups, -1, *spec.out_size)
        acc += np.einsum("ngihw,goi->ngohw", grouped, taps, optimize=True).reshape(acc.shape)
    return _epilogue(spec, acc, params, tensors.get("r"))


def dense(spec: Dense, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return y of a matrix product."""
    x = tensors["x"].astype(np.float64)
    if spec.x != "float32":
        x -= params["z"][0]
    w = params["w"].astype(np.float64)
    if spec.half:
        x, w = rounded_to_half(x), rounded_to_half(w)
    return _epilogue(spec, x @ w.T, params, None)


def rounded_to_half(values: np.ndarray) -> np.ndarray:
    """Return float32 numbers, held as float64, as float16 has them; infinite from 65520."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float64)


def pool2d(spec: Pool2d, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return y of a pooling; padding never wins a maximum and adds zero to a sum."""
    x = tensors["x"]
    if spec.reduce == "max":
        lowest = np.finfo(x.dtype).min if x.dtype == np.float32 else np.iinfo(x.dtype).min
        pixels = [patch for _, _, patch in _patches(spec, np.ones_like(x), spec.padding, 0)]
        if x.dtype == np.float32 and np.maximum.reduce(pixels).all():
            lowest = -np.inf  # each window has a pixel; what padding alone gives is finite
        patches = [patch for _, _, patch in _patches(spec, x, spec.padding, lowest)]
        return np.asarray(np.maximum.reduce(patches))
    if spec.x == "float32":
        total = np.zeros((*x.shape[:2], *spec.out_size), np.float32)
        for _, _, patch in _patches(spec, x, spec.padding, 0):
            total += patch
        return np.asarray(total * params["m"])
    z_x, z_y = params["z"]
    patches = [p for _, _, p in _patches(spec, x.astype(np.int32) - z_x, spec.padding, 0)]
    acc = np.asarray(np.sum(patches, axis=0, dtype=np.int32))
    return scale(spec, acc, factors(spec, params, "m"), z_y, params["clamp"])


def _patches(
    spec: Conv2d | Pool2d, x: np.ndarray, before: Pair, fill: float
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield what each tap of the window sees: row, column, (n, c, oh, ow); ascending."""
    spans = [
        (out - 1) * stride + dilation * (kernel - 1) + 1
        for out, stride, dilation, kernel in zip(
            spec.out_size, spec.strides, spec.dilation, spec.kernel, strict=True
        )
    ]
    after = [max(s - b - size, 0) for s, b, size in zip(spans, before, x.shape[2:], strict=True)]
    widths = ((0, 0), (0, 0), *zip(before, after, strict=True))
    padded = np.pad(x, widths, constant_values=fill)
    (oh, ow), (sh, sw), (dh, dw) = spec.out_size, spec.strides, spec.dilation
    for row in range(spec.kernel[0]):
        for col in range(spec.kernel[1]):
            rows = row * dh + sh * np.arange(oh)
            cols = col * dw + sw * np.arange(ow)
            yield row, col, padded[:, :, rows[:, None], cols]


def _epilogue(
    spec: Conv2d | Dense, acc: np.ndarray, params: Arrays, r: np.ndarray | None
) -> np.ndarray:
    """Return y of the float64 sums ``acc``, without the bias; channels are axis 1."""
    shape = (1, -1, *(1,) * (acc.ndim - 2))
    acc = acc + params["bias"].reshape(shape)
    if spec.x == "float32":
        return _float_epilogue(spec, acc.astype(np.float32), params, r)
    centred = None if r is None else r.astype(np.int32) - params["z"][2]
    return epilogue(spec, acc.astype(np.int32), params, centred)


def _float_epilogue(
    spec: Conv2d | Dense, acc: np.ndarray, params: Arrays, r: np.ndarray | None
) -> np.ndarray:
    shape = (1, -1, *(1,) * (acc.ndim - 2))
    addend = np.zeros_like(acc) if r is None else r
    y = acc + addend
    if isinstance(spec, Conv2d) and spec.sum_first:
        y = of_sum(spec, y, params)
    elif spec.leaky:
        y = np.where(acc < 0, fma(acc, params["alpha"].reshape(shape), addend), y)
    return clamp(y, params["clamp"])
