"""NumPy reference of every specification, in logical layout: what each kernel must return.

Exact:  bit for bit, but for float32 convolution and dense: their sums are taken in float64 and
        rounded once, a kernel's rounding depends on its order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from schedules.reference.exact import clamp, to_integer
from schedules.reference.functions import gelu, sigmoid
from schedules.reference.interpolating import bilinear, interpolate
from schedules.reference.normalizing import normalize, softmax
from schedules.reference.products import attention, product
from schedules.reference.recurrence import recurrence
from schedules.reference.sampling import sample2d
from schedules.reference.scaling import add, by_sign, factors, scale
from schedules.reference.suppression import suppression
from schedules.reference.windows import conv2d, dense, pool2d
from schedules.spec import (
    QUOTIENTS,
    ZERO_DIVISOR,
    Arithmetic,
    Binary,
    Bound,
    ChannelExtremes,
    ChannelMeans,
    Concat,
    Dequantize,
    Gelu,
    Move,
    Observe,
    Quantize,
    Rescale,
    Sigmoid,
    Spec,
    Table,
)
from schedules.template import Arrays


def reference(spec: Spec, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return y of ``spec`` for logical activations and the constants in their logical form.

    A symbolic batch is what the arrays say.
    """
    return _REFERENCES[spec.kind](spec, tensors, params)


def _binary(spec: Binary, tensors: Arrays, params: Arrays) -> np.ndarray:
    a, b = tensors["a"], tensors["b"]
    if spec.a == "float32":
        with np.errstate(divide="ignore", invalid="ignore"):
            t = _OPERATORS[spec.operator](a, b)
        if spec.y == "float32":
            return clamp(t, params["clamp"])
        return to_integer(t / params["s"], params["z"], params["clamp"], spec.y)
    z_a, z_b, z_y = params["z"]
    a, b = a.astype(np.int32) - z_a, b.astype(np.int32) - z_b
    if spec.operator == "mul":
        return scale(spec, a * b, factors(spec, params, "m"), z_y, params["clamp"])
    if spec.operator == "add":
        return add(spec, a, b, params)
    if spec.operator in QUOTIENTS:
        t = _QUOTIENTS[spec.operator](a, b) * params["m"]
        return to_integer(t, z_y, params["clamp"], spec.y)
    a = scale(spec, a, factors(spec, params, "m_a"), z_y, params["clamp"])
    b = scale(spec, b, factors(spec, params, "m_b"), z_y, params["clamp"])
    return np.asarray(_OPERATORS[spec.operator](a, b))


def _arithmetic(spec: Arithmetic, tensors: Arrays, params: Arrays) -> np.ndarray:
    x, b = tensors["x"], tensors.get("b")
    if spec.function == "clip":
        return clamp(x, params["clamp"])
    with np.errstate(divide="ignore", invalid="ignore"):
        y = _ALONE[spec.function](x) if b is None else _OPERATORS[spec.function](x, b)
    return clamp(y, params["clamp"]) if spec.clamped else np.asarray(y)


def _bound(spec: Bound, tensors: Arrays, params: Arrays) -> np.ndarray:
    z_x, z_y = params["z"]
    acc = tensors["x"].astype(np.int32) - z_x
    y = scale(spec, acc, factors(spec, params, "m"), z_y, params["clamp"])
    return np.asarray(_OPERATORS[spec.operator](y, params["bound"].reshape(spec.bound_shape)))


def _rescale(spec: Rescale, tensors: Arrays, params: Arrays) -> np.ndarray:
    x = tensors["x"]
    per_channel = (1, -1, *(1,) * (x.ndim - 2))
    if spec.x == "float32":
        if spec.leaky:
            x = np.where(x < 0, x * params["alpha"].reshape(per_channel), x)
        return clamp(x, params["clamp"])
    z_x, z_y = params["z"]
    acc, multiplier = x.astype(np.int32) - z_x, factors(spec, params, "m")
    if spec.leaky:
        multiplier = by_sign(acc, multiplier, factors(spec, params, "m_neg", per_channel))
    return scale(spec, acc, multiplier, z_y, params["clamp"])


def _table(spec: Table, tensors: Arrays, params: Arrays) -> np.ndarray:
    entry = tensors["x"].astype(np.int32) + (128 if spec.x == "int8" else 0)
    if spec.by_channel:
        channel = np.arange(entry.shape[1]).reshape(-1, *(1,) * (entry.ndim - 2))
        entry = entry + 256 * channel
    return np.asarray(params["table"][entry])


def _quantize(spec: Quantize, tensors: Arrays, params: Arrays) -> np.ndarray:
    with np.errstate(over="ignore"):
        t = tensors["x"] / params["s"]
    return to_integer(t, params["z"], params["clamp"], spec.y)


def _dequantize(spec: Dequantize, tensors: Arrays, params: Arrays) -> np.ndarray:
    return (tensors["x"].astype(np.int32) - params["z"]).astype(np.float32) * params["s"]


def _concat(spec: Concat, tensors: Arrays, params: Arrays) -> np.ndarray:
    return np.concatenate([tensors[name] for name in spec.tensors], axis=spec.axis)


def _move(spec: Move, tensors: Arrays, params: Arrays) -> np.ndarray:
    x = tensors["x"]
    # Only the outermost axis may be symbolic.
    batch = spec.y_shape[0] if isinstance(spec.y_shape[0], int) else x.shape[0]
    y_shape = (batch, *(int(size) for size in spec.y_shape[1:]))
    arguments = spec.arguments
    if spec.move == "reshape":
        return x.reshape(y_shape)
    if spec.move == "transpose":
        return np.ascontiguousarray(x.transpose(arguments))
    if spec.move == "pad":
        y = np.full(y_shape, params["fill"][0], x.dtype)
        y[tuple(slice(b, b + size) for b, size in zip(arguments, x.shape, strict=True))] = x
        return y
    if spec.move in ("edge", "reflect"):
        sizes = zip(arguments, x.shape, y_shape, strict=True)
        widths = [(before, out - size - before) for before, size, out in sizes]
        return np.pad(x, widths, mode=spec.move)
    if spec.move == "slice":
        begins, steps = arguments[: x.ndim], arguments[x.ndim :]
        sliced = zip(begins, steps, y_shape, strict=True)
        indices = [begin + step * np.arange(size) for begin, step, size in sliced]
        return np.asarray(x[np.ix_(*indices)])
    if spec.move == "shuffle":
        digits, axes, joined, begins = spec.shuffle_parts
        turned = x.reshape(len(x), *digits).transpose(0, *(1 + axis for axis in axes))
        cut = [slice(b, b + size) for b, size in zip(begins, y_shape[1:], strict=True)]
        return np.ascontiguousarray(turned.reshape(len(x), *joined)[:, *cut])
    if spec.move == "resize":
        resized = zip(x.shape, y_shape, strict=True)
        indices = [np.arange(size) * old // size for old, size in resized]
        return np.asarray(x[np.ix_(*indices)])
    return x.copy()


def _channel_means(spec: ChannelMeans, tensors: Arrays, params: Arrays) -> np.ndarray:
    rows = tensors["x"].reshape(spec.dims[1], -1)
    sums = np.cumsum(rows, axis=1, dtype=np.float32)[:, -1]
    return np.asarray(sums * params["m"])


def _channel_extremes(spec: ChannelExtremes, tensors: Arrays, params: Arrays) -> np.ndarray:
    rows = tensors["x"].reshape(spec.dims[1], -1)
    return np.stack([rows.min(axis=1), rows.max(axis=1)])


def _observe(spec: Observe, tensors: Arrays, params: Arrays) -> np.ndarray:
    x = tensors["x"].ravel()
    finite = x[np.isfinite(x)]
    if spec.statistic == "range":
        low, high = np.min(finite, initial=np.inf), np.max(finite, initial=-np.inf)
        return np.array([low, high, x.size - finite.size], np.float32)
    if not params["inverse"][0]:
        return np.zeros(spec.bins, np.int32)
    value = (finite.view(np.int32) & params["mask"]).view(np.float32)
    with np.errstate(over="ignore"):
        position = (value - params["low"]) * params["inverse"]
    bins = np.clip(position, 0, spec.bins - 1).astype(np.int64)
    return np.bincount(bins, minlength=spec.bins).astype(np.int32)


def _quotient(dividend: np.ndarray, divisor: np.ndarray) -> np.ndarray:
    """Return the float32 quotient of steps ``q - z``, one rounding."""
    safe = np.where(divisor == 0, np.float32(ZERO_DIVISOR), divisor.astype(np.float32))
    return np.asarray(dividend.astype(np.float32) / safe)


_OPERATORS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "rsub": lambda a, b: b - a,
    "mul": np.multiply,
    "div": np.divide,
    "rdiv": lambda a, b: b / a,
    "max": np.maximum,
    "min": np.minimum,
}
_ALONE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "identity": lambda x: x,
    "negative": np.negative,
    "sigmoid": lambda x: sigmoid(Sigmoid(dims=x.shape), {"x": x}, {}),
    "gelu": lambda x: gelu(Gelu(dims=x.shape), {"x": x}, {}),
}
_QUOTIENTS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "div": _quotient,
    "rdiv": lambda a, b: _quotient(b, a),
}
_REFERENCES: dict[str, Callable[[Any, Arrays, Arrays], np.ndarray]] = {
    "conv2d": conv2d,
    "dense": dense,
    "pool2d": pool2d,
    "arithmetic": _arithmetic,
    "binary": _binary,
    "bound": _bound,
    "rescale": _rescale,
    "table": _table,
    "quantize": _quantize,
    "dequantize": _dequantize,
    "concat": _concat,
    "move": _move,
    "observe": _observe,
    "channel_means": _channel_means,
    "channel_extremes": _channel_extremes,
    "interpolate": interpolate,
    "bilinear": bilinear,
    "sample2d": sample2d,
    "sigmoid": sigmoid,
    "gelu": gelu,
    "product": product,
    "attention": attention,
    "normalize": normalize,
    "softmax": softmax,
    "recurrence": recurrence,
    "suppression": suppression,
}
