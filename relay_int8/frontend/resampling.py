"""Images resized by a product with constant weights along each axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.graph.dataflow import shape

Array = np.ndarray[Any, np.dtype[Any]]
Weights = Callable[[int, int], Array]
"""Of how many pixels, how many are wanted -> what each takes of those there are, (wanted, size)."""

MOST_WEIGHTS = 1 << 22  # from 2048 pixels to as many; more come from a damaged file


def resized_by_products(
    emit: Emit, x: relax.Expr, wanted: Sequence[int], weights: Weights
) -> relax.Expr:
    """Return ``x`` with ``wanted`` pixels along its last one or two axes."""
    sizes = shape(x)[-len(wanted) :]
    for axis in reversed(range(-len(wanted), 0)):
        if sizes[axis] != wanted[axis]:
            _refuse_many(sizes[axis], wanted[axis])
            x = _product(emit, x, axis, weights(sizes[axis], wanted[axis]))
    return x


def filtered_at(
    emit: Emit,
    x: relax.Expr,
    places: Sequence[Array],
    kernel: Callable[[Array], Array],
    *,
    inside: bool = False,
) -> relax.Expr:
    """Return ``x`` at ``places`` along its last one or two axes, 0 the first pixel's middle.

    The pixels around a place have the weights of a filter. Those outside have no part if
    ``inside``, else they are those of the edge.
    """
    sizes = shape(x)[-len(places) :]
    for axis in range(-len(places), 0):
        size, at = sizes[axis], places[axis]
        if np.array_equal(at, np.arange(size)):
            continue
        _refuse_many(size, len(at))
        beyond = 0 if inside else WIDEST + 1
        pixels = np.arange(-beyond, size + beyond)
        middles = at.astype("float64").clip(-1, size)
        parts = _onto_edge(kernel(np.abs(pixels - middles[:, None])), pixels, size)
        parts /= parts.sum(axis=1, keepdims=True) if inside else 1.0
        x = _product(emit, x, axis, parts.astype("float32"))
    return x


def taken_at(emit: Emit, x: relax.Expr, numbers: Sequence[Array]) -> relax.Expr:
    """Return the pixels of such ``numbers`` along the last axes; the edge goes on outside."""
    sizes, rank = shape(x)[-len(numbers) :], len(shape(x))
    for axis in range(-len(numbers), 0):
        if not np.array_equal(numbers[axis], np.arange(sizes[axis])):
            indices = relax.const(numbers[axis].clip(0, sizes[axis] - 1).astype("int64"))
            x = emit("taken", relax.op.take(x, indices, rank + axis, mode="clip"))
    return x


def _product(emit: Emit, x: relax.Expr, axis: int, weights: Array) -> relax.Expr:
    """Multiply the last axis (-1) or the one before (-2) by weights, (wanted, size)."""
    if axis == -1:
        return emit("columns", relax.op.matmul(x, relax.const(np.ascontiguousarray(weights.T))))
    return emit("rows", relax.op.matmul(relax.const(weights), x))


def _refuse_many(size: int, wanted: int) -> None:
    if size * wanted > MOST_WEIGHTS:
        raise NotImplementedError(f"resizing {size} pixels to {wanted}")


def _onto_edge(parts: Array, pixels: Array, size: int) -> Array:
    """Return the parts of each of ``size`` pixels: those outside are added to the edge's."""
    nearest = pixels.clip(0, size - 1)[:, None] == np.arange(size)
    found: Array = parts @ nearest.astype("float64")
    return found


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
    weights = _onto_edge(kernel(np.abs(pixels + 0.5 - middles) / width), pixels, size)
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
