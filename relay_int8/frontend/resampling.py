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
