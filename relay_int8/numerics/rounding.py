"""Which way to round each weight, so that the layer's output errs least.

Rounding to nearest is best for a weight alone, not for a sum over many. With inputs ``x`` (what the
layer will read, quantized) and outputs ``y`` (what it gives in float), both without their means,
the error of integers ``q`` with scale ``s`` is a quadratic form of a channel's weights::

    E |s q.x - y|^2  =  w A w - 2 w.p + const,       w = s q,  A = E[x x^T],  p = E[x y]

(the means are the bias's business). Each integer is floor or ceil of its float weight: the problem
of Nagel et al., "Up or Down? Adaptive Rounding for Post-Training Quantization", ICML 2020, equation
13. Two solvers: :func:`adaround`, the paper's relaxation by a rectified sigmoid, and
:func:`descent`, one coordinate after the other, each step exact (as in Zhang et al., "COMQ", 2024).
Pure NumPy, no graph in sight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.numerics.qparams import WEIGHT_MAX

Array = npt.NDArray[Any]
RIDGE = 0.01
"""Of the mean variance: weights whose inputs the images hardly move stay where they are."""
SWEEPS = 8
BLOCK = 32  # columns of a layer whose gradients are computed at a time
ZETA, GAMMA = 1.1, -0.1  # the sigmoid's stretch, equation 23
LEARNING_RATE, REGULARIZATION = 0.1, 1.0  # for errors in units of those of random rounding
BETA_FIRST, BETA_LAST = 20.0, 2.0
WARM_UP = 0.2


def nearest(w: Array, s: Array, a: Array, p: Array) -> Array:
    """Return the integers nearest to ``w / s``; arguments as :func:`descent`."""
    return np.clip(np.rint(w / s[..., None]), -WEIGHT_MAX, WEIGHT_MAX)


def descent(w: Array, s: Array, a: Array, p: Array) -> Array:
    """Return float64 (oc, k): integers by coordinate descent.

    From two starts, the better result of each channel: the nearest integers, and the float weights,
    which the first sweep rounds one after the other, each making up for those before it. Problems
    of one size, as the groups of a convolution are, may be stacked along axes in front.

    Parameters
    ----------
    w
        (..., oc, k) float weights.
    s
        (..., oc) their scales.
    a
        (..., k, k) second moments of the inputs, their means taken out.
    p
        (..., oc, k) moments of inputs and wanted outputs.
    """
    w = np.asarray(w, np.float64)
    channels = w.shape[-2]
    a, p = _regularized(w, a, p)
    bounds = _neighbours(w, s)
    real = w / s[..., None]
    starts = np.concatenate([np.clip(np.rint(real), *bounds), np.clip(real, *bounds)], axis=-2)
    steps = p / s[..., None]  # what the gradient by an integer has without any of them
    steps = np.concatenate([steps, steps], axis=-2)
    low, high = (np.concatenate([bound, bound], axis=-2) for bound in bounds)
    q = _descend(starts, a, steps, (low, high))
    s, p = np.concatenate([s, s], axis=-1), np.concatenate([p, p], axis=-2)
    errors = error(q, s, a, p)
    rounded, fed_back = q[..., :channels, :], q[..., channels:, :]
    better = errors[..., channels:] < errors[..., :channels]
    return np.where(better[..., None], fed_back, rounded)


def _descend(q: Array, a: Array, p: Array, bounds: tuple[Array, Array]) -> Array:
    """Return ``q`` after sweeps in which each integer takes the better of its two values.

    With integers instead of weights the error of a channel is ``q A q - 2 q.p``, p in steps of its
    scale. Columns come first, so that what a step touches lies together in memory.
    """
    a = _columns_first(a.swapaxes(-1, -2))  # which is a: it is symmetric, and often no copy then
    low, high, q, p = (_columns_first(array) for array in (*bounds, q, p))
    result, rest = q.copy(), np.arange(q.shape[-1])
    for _ in range(SWEEPS):
        moving = _sweep(q, a, p, (low, high))
        result[..., rest] = q
        if not moving.any():
            break
        if moving.ndim == 1:  # a channel that stood still for a sweep has settled
            q, p, low, high = (array[:, moving] for array in (q, p, low, high))
            rest = rest[moving]
    integers: Array = np.moveaxis(result, 0, -1)
    return integers


def _sweep(q: Array, a: Array, p: Array, bounds: tuple[Array, Array]) -> Array:
    """Take a step of each column of ``q``; return which channels have moved.

    Half the gradient is computed for ``BLOCK`` columns at a time, where it is needed.
    """
    low, high = bounds
    moving = np.zeros(q.shape[1:], bool)
    others = np.moveaxis(q, 0, -2)  # (..., k, channels)
    for start in range(0, len(q), BLOCK):
        columns = slice(start, start + BLOCK)
        rows = np.moveaxis(a[columns], 0, -2)
        slope = np.moveaxis(np.matmul(rows, others), -2, 0) - p[columns]
        before = q[columns].copy()
        _round_block(q[columns], a[columns, ..., columns], slope, (low[columns], high[columns]))
        moving |= (q[columns] != before).any(axis=0)
    return moving


def _columns_first(array: Array) -> Array:
    return np.ascontiguousarray(np.moveaxis(array, -1, 0))


def _round_block(q: Array, a: Array, slope: Array, bounds: tuple[Array, Array]) -> None:
    """Change a block of columns, which come first, by one step of each, and their slopes."""
    low, high = bounds
    middle = (low + high) / 2
    for j in range(len(q)):
        own = a[j, ..., j][..., None]
        best = q[j] - np.divide(slope[j], own, out=np.zeros_like(slope[j]), where=own > 0)
        chosen = np.where(best <= middle[j], low[j], high[j])
        step = chosen - q[j]
        if step.any():
            slope[j + 1 :] += step * a[j + 1 :, ..., j][..., None]
        q[j] = chosen


def adaround(w: Array, s: Array, a: Array, p: Array, iterations: int = 1000) -> Array:
    """Return float64 (oc, k): integers by AdaRound; arguments as :func:`descent`.

    Adam on the variables of the rectified sigmoid, the regularizer's exponent falling from 20 to 2
    after the first fifth of the iterations, in units of the layer's own error.
    """
    w = np.asarray(w, np.float64)
    if w.ndim > 2:  # groups
        problems = zip(w, s, a, p, strict=True)
        return np.stack([adaround(*problem, iterations) for problem in problems])
    a, p = _regularized(w, a, p)
    low, high = _neighbours(w, s)
    span = np.where(high > low, high - low, 1.0)
    start = np.clip((w / s[:, None] - low) / span, 0.01, 0.99)
    v = _logit((start - GAMMA) / (ZETA - GAMMA))
    unit = 1.0 / max(float(np.mean(s**2) * np.trace(a)) / len(a), 1e-30)
    first, second = np.zeros_like(v), np.zeros_like(v)
    for step in range(1, iterations + 1):
        sigmoid = 1 / (1 + np.exp(-v))
        h = np.clip(sigmoid * (ZETA - GAMMA) + GAMMA, 0, 1)
        inside = (h > 0) & (h < 1)
        slope = 2 * ((s[:, None] * (low + h * span)) @ a - p) * s[:, None] * span * unit
        slope += _pull(h, step / iterations)
        slope *= inside * sigmoid * (1 - sigmoid) * (ZETA - GAMMA)
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        corrected = second / (1 - 0.999**step)
        v -= LEARNING_RATE * first / (1 - 0.9**step) / (np.sqrt(corrected) + 1e-8)
    sigmoid = 1 / (1 + np.exp(-v))
    up = sigmoid * (ZETA - GAMMA) + GAMMA >= 0.5
    return np.where(up, high, low)


def error(q: Array, s: Array, a: Array, p: Array) -> Array:
    """Return (..., oc): the quadratic form above, its constant left out."""
    w = s[..., None] * q
    form: Array = ((w @ a) * w).sum(axis=-1) - 2 * (w * p).sum(axis=-1)
    return form


Rounding = Callable[[Array, Array, Array, Array], Array]
ROUNDINGS: Mapping[str, Rounding] = {"nearest": nearest, "adaround": adaround, "descent": descent}


def _regularized(w: Array, a: Array, p: Array) -> tuple[Array, Array]:
    a = np.array(a, np.float64)
    k = a.shape[-1]
    ridge = RIDGE * np.trace(a, axis1=-2, axis2=-1)[..., None] / max(k, 1)
    a[..., np.arange(k), np.arange(k)] += ridge
    return a, p + ridge[..., None] * w


def _neighbours(w: Array, s: Array) -> tuple[Array, Array]:
    real = w / s[..., None]
    low = np.clip(np.floor(real), -WEIGHT_MAX, WEIGHT_MAX)
    high = np.clip(np.ceil(real), -WEIGHT_MAX, WEIGHT_MAX)
    # The largest weight makes the scale: it stays, or the others would change with it.
    whole = np.abs(real - np.rint(real)) < 1e-4
    whole |= np.abs(real) == np.abs(real).max(axis=-1, keepdims=True)
    near = np.clip(np.rint(real), -WEIGHT_MAX, WEIGHT_MAX)
    return np.where(whole, near, low), np.where(whole, near, high)


def _pull(h: Array, progress: float) -> Array:
    """Return the regularizer's gradient: it pulls h to 0 or 1, more sharply as time goes by."""
    if progress < WARM_UP:
        return np.zeros_like(h)
    done = (progress - WARM_UP) / (1 - WARM_UP)
    beta = BETA_LAST + (BETA_FIRST - BETA_LAST) * (1 - done)
    distance = 2 * h - 1
    pull: Array = -REGULARIZATION * 2 * beta * np.sign(distance) * np.abs(distance) ** (beta - 1)
    return pull


def _logit(x: Array) -> Array:
    logit: Array = np.log(x / (1 - x))
    return logit
