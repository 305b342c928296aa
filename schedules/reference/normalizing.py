"""NumPy reference of norms and of softmax: sums in sixteen partial sums, bit for bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from schedules.reference.exact import fma, to_integer
from schedules.reference.functions import exp
from schedules.spec import Normalize, Softmax
from schedules.spec.functions import LEAST_EXP_ARGUMENT
from schedules.spec.normalizing import PARTIAL_SUMS
from schedules.spec.operator_spec import FLOAT32_MAX
from schedules.template import Arrays


def normalize(spec: Normalize, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return x normalized row by row, quantized where y is an integer."""
    n, one, axis = params["count"], np.float32(1), 1 if spec.pixels else -1
    x = np.moveaxis(tensors["x"], axis, -1)
    rows = x.reshape(-1, spec.size)
    d = rows - row_sums(rows) / n if spec.centred else rows
    squares = row_sums(d, lambda total, part: fma(part, part, total))
    inv = one / np.sqrt(squares / n + params["epsilon"])
    gamma, beta = (_spread(spec, params[name], rows) for name in ("gamma", "beta"))
    y = _stored(spec, fma(d * inv, gamma, beta), params).reshape(x.shape)
    return np.moveaxis(y, -1, axis)


def softmax(spec: Softmax, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return shares of one along the axis, quantized where y is an integer."""
    x, one = np.moveaxis(tensors["x"], spec.axis, -1), np.float32(1)
    rows = x.reshape(-1, spec.size)
    largest, smallest = np.float32(FLOAT32_MAX), np.float32(LEAST_EXP_ARGUMENT)
    top = np.clip(rows.max(axis=1, keepdims=True), -largest, largest)
    with np.errstate(over="ignore"):
        a = np.minimum(rows - top, np.float32(0))
    e = np.where(a < smallest, np.float32(0), exp(np.maximum(a, smallest)))
    t = e / np.maximum(row_sums(e), one)
    return np.moveaxis(_stored(spec, t, params).reshape(x.shape), -1, spec.axis)


def row_sums(
    rows: np.ndarray, step: Callable[[np.ndarray, np.ndarray], np.ndarray] = np.add
) -> np.ndarray:
    """Return the float32 sums (r, 1) of rows (r, n): partial sums by ``step``, then a tree."""
    total = np.zeros((len(rows), PARTIAL_SUMS), np.float32)
    for first in range(0, rows.shape[1], PARTIAL_SUMS):
        part = rows[:, first : first + PARTIAL_SUMS]
        total[:, : part.shape[1]] = step(total[:, : part.shape[1]], part)
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        total = total[:, :half] + total[:, half:]
    return total


def _spread(spec: Normalize, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return what each element of each row is multiplied by, or what is added."""
    every = np.arange(rows.size).reshape(rows.shape)
    return np.asarray(values[every // spec.span % spec.channels])


def _stored(spec: Normalize | Softmax, t: np.ndarray, params: Arrays) -> np.ndarray:
    if spec.y == "float32":
        return t
    with np.errstate(over="ignore"):
        return to_integer(t / params["s"], params["z"], params["clamp"], spec.y)
