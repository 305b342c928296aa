"""Images resized by a product with constant weights along each axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.graph.dataflow import shape

Array = np.ndarray[Any, np.dtype[Any]]
Emit = Callable[[str, relax.Expr], relax.Expr]
Weights = Callable[[int, int], Array]
"""Of how many pixels, how many are wanted -> what each takes of those there are, (wanted, size)."""

MOST_WEIGHTS = 1 << 22  # from 2048 pixels to as many; more come from a damaged file


def resized_by_products(
    emit: Emit, x: relax.Expr, wanted: Sequence[int], weights: Weights
) -> relax.Expr:
    """Return ``x`` with ``wanted`` pixels along its last one or two axes."""
    *outer, size = shape(x)
    if max(map(math.prod, zip(wanted[::-1], shape(x)[::-1], strict=False))) > MOST_WEIGHTS:
        raise NotImplementedError(f"resizing {list(shape(x))} to {list(wanted)}")
    if size != wanted[-1]:
        columns = np.ascontiguousarray(weights(size, wanted[-1]).T)
        x = emit("columns", relax.op.matmul(x, relax.const(columns)))
    if len(wanted) > 1 and outer[-1] != wanted[-2]:
        rows = weights(outer[-1], wanted[-2])
        x = emit("rows", relax.op.matmul(relax.const(rows), x))
    return x


def resized_at(
    emit: Emit, x: relax.Expr, places: Sequence[Array], kernel: Callable[[Array], Array] | None
) -> relax.Expr:
    """Return ``x`` at ``places`` along its last axes, pixels counted from 0 at the first middle.

    The pixels around a place have the weights of a filter, of at most two axes; without one,
    places are numbers of pixels, which are taken.
    """
    rank = len(shape(x))
    for axis, at in zip(range(rank - len(places), rank), places, strict=True):
        size = shape(x)[axis]
        if np.array_equal(at, np.arange(size)):
            continue
        if kernel is None:
            indices = relax.const(at.clip(0, size - 1).astype("int64"))
            x = emit("taken", relax.op.take(x, indices, axis, mode="clip"))
            continue
        if len(at) * size > MOST_WEIGHTS:
            raise NotImplementedError(f"resizing {size} pixels to {len(at)}")
        weights = _weights_at(at, size, kernel)
        if axis == rank - 1:
            columns = relax.const(np.ascontiguousarray(weights.T))
            x = emit("columns", relax.op.matmul(x, columns))
        else:
            x = emit("rows", relax.op.matmul(relax.const(weights), x))
    return x


def _weights_at(places: Array, size: int, kernel: Callable[[Array], Array]) -> Array:
    """Return what is taken of each of ``size`` pixels at some places; the edge goes on outside."""
    pixels = np.arange(-WIDEST - 1, size + WIDEST + 1)
    inside = places.astype("float64").clip(-1, size)
    parts = kernel(np.abs(pixels - inside[:, None]))
    nearest = pixels.clip(0, size - 1)[:, None] == np.arange(size)
    weights: Array = (parts @ nearest.astype("float64")).astype("float32")
    return weights


def first_pixel(x: relax.Expr) -> relax.Expr:
    """Return what an image is when it shrinks to one pixel whose corner is that of the image."""
    axes = list(range(2, len(shape(x))))
    return relax.op.strided_slice(x, axes, [0] * len(axes), [1] * len(axes))


def aligned_pixel(x: relax.Expr, sizes: Sequence[int]) -> relax.Expr | None:
    """Return the result of aligning corners to one pixel; None where ``sizes`` are of more."""
    if set(sizes) == {1}:
        return first_pixel(x)
    if 1 in sizes:
        raise NotImplementedError("it aligns the corners of a single pixel; use asymmetric")
    return None


def filter_weights(
    size: int, wanted: int, *, kernel: Callable[[Array], Array], inside: bool
) -> Array:
    """Return what each of ``wanted`` pixels takes of ``size``, float32 (wanted, size).

    The filter is as wide as results are apart where the axis shrinks. Pixels outside of the image
    have no part if ``inside``, else they are those of its edge; the parts sum up to one.
    """
    step = size / wanted
    width = max(step, 1.0)
    beyond = 0 if inside else math.ceil(WIDEST * width)
    middles = (np.arange(wanted)[:, None] + 0.5) * step
    pixels = np.arange(-beyond, size + beyond)
    parts = kernel(np.abs(pixels + 0.5 - middles) / width)
    nearest = pixels.clip(0, size - 1)[:, None] == np.arange(size)
    weights = parts @ nearest.astype("float64")
    shares: Array = (weights / weights.sum(axis=1, keepdims=True)).astype("float32")
    return shares


def _linear(distance: Array, sharpness: float) -> Array:
    return np.maximum(1.0 - distance, 0.0)


def _cubic(distance: Array, sharpness: float) -> Array:
    """Return Keys' cubic of parameter ``sharpness``."""
    a = sharpness
    near = ((a + 2.0) * distance - (a + 3.0)) * distance**2 + 1.0
    far = a * (((distance - 5.0) * distance + 8.0) * distance - 4.0)
    return np.where(distance < 1.0, near, np.where(distance < 2.0, far, 0.0))


WIDEST = 2
"""Pixels that the cubic reaches to either side."""

FILTERS: dict[str, Callable[..., Array]] = {"linear": _linear, "cubic": _cubic}
"""Weight of a pixel by its distance, for each mode."""
