"""Tensors of many images in NumPy, as operators compute them for accuracy tools.

Images stand along the first axis. A tensor that has one row an image, (1, ...), is (n, ...) for n
images; one of any other shape, as a channel shuffle makes, is (n, *shape). Operators with weights
take such tensors as they are; others that would mix the images are computed one image at a time.

float32 tensors. Products of whole numbers are exact, in float32 where their sums stay below 2^24;
those of reals are summed in float64: their order is the library's, and differs with the CPU and its
threads, but not in what is left of them in float32. So a search, which runs these again and again,
finds the same everywhere. Nothing that a network computes in the end comes from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from relay_int8.graph.group import Clip, Leaky, Smooth

Array = npt.NDArray[Any]
Pair = tuple[int, int]
EXACT_F32 = 2.0**24  # bound up to which every whole number is a float32


def batched(images: Sequence[Array], shape: Sequence[int]) -> Array:
    """Return tensors of ``shape``, one an image, with the images along the first axis."""
    return np.stack(images).reshape(len(images), *tail(shape))


def tail(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the extents of one image of a tensor whose images stand along the first axis."""
    return tuple(shape[1:]) if tuple(shape[:1]) == (1,) else tuple(shape)


def rows(x: Array, shape: Sequence[int]) -> Array:
    """Return a tensor of many images with the rank of ``shape``: (n * shape[0], ...).

    A vector has an axis of images put in front: (n, k).
    """
    return x.reshape(-1, *(shape[1:] if len(shape) > 1 else shape))


def product(a: Array, b: Array) -> Array:
    """Return the matrix product, summed in float64 and rounded to float32."""
    y: Array = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    return y


def integer_product(a: Array, b: Array, largest: float) -> Array:
    """Return the exact matrix product of integers in float32, rounded to float32.

    Parameters
    ----------
    a, b
        float32 matrices of whole numbers.
    largest
        What no sum of magnitudes of products exceeds. Below 2^24 every partial sum is a float32, in
        whatever order a library adds.
    """
    if largest >= EXACT_F32:
        return product(a, b)
    y: Array = np.matmul(a, b)
    return y


def activate(activation: Clip | Leaky | Smooth | None, y: Array) -> Array:
    """Return the activation of ``y``, channels on axis 1; ``y`` itself may be overwritten."""
    if isinstance(activation, Clip):
        return np.clip(y, np.float32(activation.low), np.float32(activation.high), out=y)
    if isinstance(activation, Leaky):
        slope = activation.slope.astype(np.float32).reshape(-1, *(1,) * (y.ndim - 2))
        return np.where(y < 0, y * slope, y)
    if isinstance(activation, Smooth):
        values: Array = activation.function(y.astype(np.float64)).astype(np.float32)
        if activation.factors is not None:
            values *= activation.factors.astype(np.float32).reshape(-1, *(1,) * (y.ndim - 2))
        return values
    return y


def extents_read(fields: Mapping[str, Any], out_size: Pair) -> Pair:
    """Return how many rows and columns, of padding too, a convolution reads."""
    axes = zip(out_size, fields["strides"], _spans(fields), strict=True)
    rows_read, columns_read = ((out - 1) * stride + span for out, stride, span in axes)
    return rows_read, columns_read


def _spans(fields: Mapping[str, Any]) -> list[int]:
    """Return the extents of a window, of the pixels between its taps too."""
    dilation = fields.get("dilation", (1, 1))
    return [(size - 1) * step + 1 for size, step in zip(fields["kernel"], dilation, strict=True)]


def windows(x: Array, fields: Mapping[str, Any], out_size: Pair, fill: float) -> Array:
    """Return a view (n, c, oh, ow, kh, kw) of ``x`` padded with ``fill``."""
    strides, padding = fields["strides"], fields["padding"]
    dilation = fields.get("dilation", (1, 1))
    sides = []
    for axis, needed in enumerate(extents_read(fields, out_size)):
        after = max(needed - padding[axis] - x.shape[2 + axis], 0)
        sides.append((padding[axis], after))
    if any(any(side) for side in sides):
        x = np.pad(x, ((0, 0), (0, 0), *sides), constant_values=fill)
    view = sliding_window_view(x, _spans(fields), axis=(2, 3))
    view = view[:, :, :: strides[0], :: strides[1], :: dilation[0], :: dilation[1]]
    return view[:, :, : out_size[0], : out_size[1]]
