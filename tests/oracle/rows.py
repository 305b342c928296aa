"""Norms and softmax as docs/design.md has them for float32: sums of a row in sixteen parts.

Other element types, which tables and ranges take, are computed as NumPy does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracle.arithmetic import Array, fma
from tests.oracle.functions import exp

PARTS = 16


def row_sum(rows: Array, other: Array | None = None) -> Array:
    """Return the sum of each row (r, 1), of products with ``other`` where it is given."""
    if rows.dtype != np.float32:
        return np.asarray((rows if other is None else rows * other).sum(1, keepdims=True))
    parts = np.zeros((len(rows), PARTS), np.float32)
    blank = np.zeros((len(rows), -rows.shape[1] % PARTS), np.float32)
    filled = [np.hstack([each, blank]) for each in (rows, rows if other is None else other)]
    for k in range(filled[0].shape[1] // PARTS):
        x, y = (each[:, k * PARTS : (k + 1) * PARTS] for each in filled)
        parts = parts + x if other is None else fma(x, y, parts)
    for distance in (8, 4, 2, 1):
        parts = parts[:, :distance] + parts[:, distance : 2 * distance]
    return parts


def normalized(
    x: Array, size: int, epsilon: float, *, centred: bool, affine: Callable[[Array], Array]
) -> Array:
    """Normalize rows of ``size`` elements; ``affine`` scales and shifts them, in x's shape."""
    rows, kind = x.reshape(-1, size), x.dtype.type
    d = rows - row_sum(rows) / kind(size) if centred else rows
    variance = row_sum(d, d) / kind(size)
    return affine((d * (kind(1) / np.sqrt(variance + kind(epsilon)))).reshape(x.shape))


def layer_norm(x: Array, gamma: Array, beta: Array, **at: Any) -> Array:
    axes = _trailing(x, at["axes"])
    gamma = gamma if at["scale"] else np.ones_like(gamma)
    beta = beta if at["center"] else np.zeros_like(beta)
    size = int(np.prod(x.shape[-axes:]))
    return normalized(x, size, at["epsilon"], centred=True, affine=_affine(gamma, beta))


def rms_norm(x: Array, gamma: Array, *, axes: tuple[int, ...], epsilon: float) -> Array:
    size = int(np.prod(x.shape[-_trailing(x, axes) :]))
    return normalized(x, size, epsilon, centred=False, affine=_affine(gamma, np.zeros_like(gamma)))


def group_norm(x: Array, gamma: Array, beta: Array, **at: Any) -> Array:
    if at["channel_axis"] % x.ndim != 1:
        raise NotImplementedError("the oracle knows groups of axis 1 alone")
    gamma = gamma if at.get("scale", True) else np.ones_like(gamma)
    beta = beta if at.get("center", True) else np.zeros_like(beta)
    beside = (-1, *(1,) * (x.ndim - 2))
    affine = _affine(gamma.reshape(beside), beta.reshape(beside))
    size = x[0].size // at["num_groups"]
    return normalized(x, size, at["epsilon"], centred=True, affine=affine)


def instance_norm(x: Array, gamma: Array, beta: Array, **at: Any) -> Array:
    return group_norm(x, gamma, beta, **at, num_groups=x.shape[1])


def softmax(x: Array, *, axis: int) -> Array:
    if axis % x.ndim != x.ndim - 1:
        return np.moveaxis(softmax(np.moveaxis(x, axis, -1), axis=-1), -1, axis)
    if x.dtype != np.float32:
        weights = np.exp(x - x.max(axis=axis, keepdims=True))
        return np.asarray(weights / weights.sum(axis=axis, keepdims=True))
    rows = x.reshape(-1, x.shape[-1])
    limits = np.finfo(np.float32)
    with np.errstate(over="ignore"):
        a = rows - np.clip(rows.max(1, keepdims=True), limits.min, limits.max)
    a = np.where(a > 0, np.float32(0), a)
    e = np.where(a >= np.float32(-87), exp(np.maximum(a, np.float32(-87))), np.float32(0))
    return np.asarray((e / np.maximum(row_sum(e), np.float32(1))).reshape(x.shape))


def _affine(gamma: Array, beta: Array) -> Callable[[Array], Array]:
    def scaled(x: Array) -> Array:
        if x.dtype != np.float32:
            return np.asarray(x * gamma + beta)
        factors = (np.broadcast_to(values, x.shape) for values in (gamma, beta))
        return fma(x, *factors)

    return scaled


def _trailing(x: Array, axes: tuple[int, ...]) -> int:
    if sorted(axis % x.ndim for axis in axes) != list(range(x.ndim - len(axes), x.ndim)):
        raise NotImplementedError(f"the oracle knows norms of the last axes alone, found {axes}")
    return len(axes)
