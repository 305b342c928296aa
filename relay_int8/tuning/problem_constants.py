"""Constants of a kernel that make its outputs hard: some saturate, some are ties.

Weights cover their type. Multipliers make about 5 % of the outputs saturate, and are dyadic for
half of the channels, whose biases are moved so that an output lies exactly halfway between two
integers.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from relay_int8.numerics.interpolation import axis_lerps
from relay_int8.numerics.multipliers import fixed_constants
from relay_int8.numerics.qparams import WIDE_MAX
from schedules.reference.kernels import reference
from schedules.spec import (
    GATES_ALONE,
    Attention,
    Bilinear,
    Binary,
    Bound,
    Conv2d,
    Dense,
    Interpolate,
    Normalize,
    Pool2d,
    Product,
    Recurrence,
    Requantizing,
    Softmax,
    Spec,
    Suppression,
)
from schedules.spec.interpolating import WEIGHT_BITS
from schedules.template import Arrays

TAIL = 0.025  # of the outputs that saturate at each end
TELLING_OUTPUTS = 60  # outputs of a channel from which its share of saturating ones can be told
STEP = 0.0625  # of y, where floats become integers
REACH = 6.0  # of what a function in an epilogue is applied to: some of it is beyond, on either side
SUMMED = (Pool2d, Binary, Interpolate, Product, Attention)
"""Specs whose one multiplier follows from what they sum."""
Z_X, Z_Y, Z_R = {"uint8": 117, "int8": -7}, {"uint8": 126, "int8": -2}, {"uint8": 131, "int8": 5}


def values_of_type(rng: np.random.Generator, shape: Any, dtype: str) -> np.ndarray:
    """Return random values of the whole type, the extremes among them."""
    if dtype == "float32":
        return np.asarray(rng.standard_normal(shape), np.float32)
    limits = np.iinfo(dtype)
    values: np.ndarray = rng.integers(limits.min, limits.max, shape, dtype, True)
    values.flat[0] = limits.min
    values.flat[-1] = limits.max
    return values


def _weights(rng: np.random.Generator, shape: Any, dtype: str) -> np.ndarray:
    """Return random weights, the extremes among them: those of int16 are bytes less a byte."""
    if dtype != "int16":
        return values_of_type(rng, shape, dtype)
    values: np.ndarray = rng.integers(-WIDE_MAX, WIDE_MAX, shape, dtype, True)
    values.flat[0], values.flat[-1] = -WIDE_MAX, WIDE_MAX
    return values


def constants(spec: Spec, tensors: Arrays, rng: np.random.Generator) -> Arrays:
    """Return the constants in their logical form; fixed-point ones stand for float ones."""
    if isinstance(spec, Requantizing) and spec.rounding:
        return fixed_constants(spec, constants(replace(spec, requantize="float"), tensors, rng))
    if isinstance(spec, Suppression):
        bounds = {"least": _f32(-1), "overlap": _f32(0.25)}
        return {name: bounds[name] for name in spec.params}
    params = _unscaled(spec, rng)
    if spec.dtype("y") == "float32":
        params["m"] = np.full_like(params["m"], 2.0**-7)
    elif isinstance(spec, Conv2d | Dense) and "m" in params:
        _fit_channels(spec, tensors, params)
    elif isinstance(spec, Binary) and spec.operator in ("max", "min"):
        params |= {"m_a": _f32(1.0625), "m_b": _f32(1.0625)}  # no sum helps them to saturate
    elif isinstance(spec, Bound):
        params["m"] = _f32(1.25)  # one end saturates alone: the constant hides the other
    elif "m" in spec.params and isinstance(spec, SUMMED):
        acc = _accumulators(spec, tensors, params)
        params["m"] = np.full_like(params["m"], _dyadic(_fit(acc, params["clamp"])))
    return {name: params[name] for name in spec.params}


def _unscaled(spec: Spec, rng: np.random.Generator) -> Arrays:
    """Return constants that fit any sums, but for the multipliers of what is summed.

    Those of all kinds of kernels, whether ``spec`` has them or not.
    """
    x, y = spec.dtype(spec.tensors[0]), spec.dtype("y")
    channels = spec.shape("y")[1] if len(spec.shape("y")) > 1 else 1
    arrays: Arrays = {"clamp": _clamp(x, y)}
    if isinstance(spec, Conv2d | Dense):
        arrays |= _of_layer(spec, channels, rng)
    else:
        shape = spec.out_size if isinstance(spec, Pool2d) else 1
        arrays["m"] = np.full(shape, 1.0625, np.float32)
    arrays["m_neg"] = (arrays["m"].ravel()[:1] * np.full(channels, 0.375)).astype(np.float32)
    arrays["alpha"] = rng.uniform(0, 1, channels).astype(np.float32)
    arrays["b_y"] = np.linspace(-9, 9, channels, dtype=np.float32)
    arrays |= {"m_r": _f32(0.375), "m_a": _f32(0.75), "m_b": _f32(0.5), "s": _f32(STEP)}
    arrays |= _of_kind(spec, rng)
    arrays["z"] = _zero_points(spec)
    arrays["table"] = values_of_type(rng, 256, y)
    arrays["fill"] = values_of_type(rng, 1, x)
    return arrays


def _clamp(x: str, y: str) -> np.ndarray:
    """Return the bounds of y: of integers all of their type, of floats made from integers none."""
    if y != "float32":
        limits = np.iinfo(y)
        return np.array((limits.min - Z_Y[y], limits.max - Z_Y[y]), np.float32)
    return np.array([-1.5, 1.5] if x == "float32" else [-np.inf, np.inf], np.float32)


def _of_layer(spec: Conv2d | Dense, channels: int, rng: np.random.Generator) -> Arrays:
    """Return weights, biases, and multipliers of one."""
    if isinstance(spec, Conv2d):
        inputs: tuple[int, ...] = (spec.in_channels // spec.groups, *spec.kernel)
    else:
        inputs = (spec.k,)
    w = _weights(rng, (channels, *inputs), spec.constant_dtype("w"))
    bias: np.ndarray = rng.standard_normal(channels).astype(np.float32)
    if spec.x != "float32":
        bias = rng.integers(-5000, 5000, channels, dtype=np.int32)
    return {"w": w, "bias": bias, "m": np.ones(channels, np.float32)}


def _of_kind(spec: Spec, rng: np.random.Generator) -> Arrays:
    """Return the constants that kernels of one kind alone have."""
    if isinstance(spec, Interpolate):
        rows = random_taps(rng, spec.height, spec.out_size[0])
        return {"rows": rows, "columns": random_taps(rng, spec.width, spec.out_size[1])}
    if isinstance(spec, Bilinear):
        rows, row_weights = axis_lerps(spec.height, spec.out_size[0], "half_pixel")
        columns, column_weights = axis_lerps(spec.width, spec.out_size[1], "half_pixel")
        return dict(zip(spec.params, (rows, row_weights, columns, column_weights), strict=True))
    if isinstance(spec, Bound):
        return {"bound": values_of_type(rng, math.prod(spec.bound_shape), spec.dtype("y"))}
    if isinstance(spec, Normalize):
        gamma, beta = values_of_type(rng, (2, spec.channels), "float32") * np.float32(4)
        gamma[::4], beta[::4] = 0, np.float32(2.5 * STEP)  # every result is beta, half a step
        return {"gamma": gamma, "beta": beta, "epsilon": _f32(1e-5), "count": _f32(spec.size)}
    if isinstance(spec, Softmax):
        return {"s": _f32(1 / 322)}  # a quarter of one is 80.5 steps
    if isinstance(spec, Attention):
        few = 2.0**-10 / math.sqrt(spec.depth)  # powers of two apart
        return {"m_scores": np.full(spec.heads, few, np.float32)}
    return _recurrent(spec, rng) if isinstance(spec, Recurrence) else {}


def _recurrent(spec: Recurrence, rng: np.random.Generator) -> Arrays:
    """Return weights whose sums are as large as the inputs, and biases."""
    rows, typical = spec.gates * spec.hidden, 1 / math.sqrt(spec.hidden)
    w = values_of_type(rng, (rows, spec.hidden), spec.constant_dtype("w"))
    if not spec.quantized:
        w = w * np.float32(typical)
    scale = np.full(rows, typical / 74, np.float32)  # 74: the root mean square of a byte
    bias = values_of_type(rng, spec.hidden, "float32")
    return {"w": w, "scale": scale, "start": np.zeros(rows, np.int32), "bias": bias}


def random_taps(rng: np.random.Generator, size: int, out: int) -> np.ndarray:
    """Return any pairs of pixels, and weights of the second: any, and quarters, which make ties."""
    pixels = rng.integers(0, size, (2, out), dtype=np.int32)
    weights = rng.integers(0, 1 << WEIGHT_BITS, (1, out), dtype=np.int32, endpoint=True)
    weights[:, ::2] &= -(1 << WEIGHT_BITS - 2)
    return np.concatenate([pixels, weights]).reshape(-1)


def _zero_points(spec: Spec) -> np.ndarray:
    """Return z, zero for what the kernel has not."""
    zeros = []
    for name in spec.zero_points:
        dtype = spec.dtype(name) if name in (*spec.tensors, "y") else ""
        zeros.append({"y": Z_Y, "r": Z_R}.get(name, Z_X).get(dtype, 0))
    return np.array(zeros, np.int32)


def _f32(value: float) -> np.ndarray:
    return np.array([value], np.float32)


def _accumulators(spec: Spec, tensors: Arrays, params: Arrays) -> np.ndarray:
    """Return what is multiplied, as float32."""
    ones = {name: np.ones_like(params[name]) for name in ("m", "m_neg")}
    open_bounds = np.array([-np.inf, np.inf], np.float32)
    z = params["z"].copy()
    z[spec.zero_points.index("y")] = 0
    others: dict[str, Any] = (
        {"activation": None, "shifted": False} if isinstance(spec, Conv2d | Dense) else {}
    )
    if isinstance(spec, Conv2d):
        others["sum_first"] = False
    plain: Any = replace(spec, y="float32", **others)  # type: ignore[arg-type]
    opened = {**params, **ones, "m_r": _f32(0), "clamp": open_bounds, "z": z}
    return reference(plain, tensors, opened)


def _fit_channels(spec: Conv2d | Dense, tensors: Arrays, params: Arrays) -> None:
    """Set m, m_neg and, for ties, the bias of every second channel; m and m_y of a function."""
    acc = np.moveaxis(_accumulators(spec, tensors, params), 1, 0).reshape(len(params["m"]), -1)
    bounds = params["clamp"]
    if spec.activation:
        bounds = np.array([-REACH, REACH], np.float32)
        largest = 1.0 if spec.activation in GATES_ALONE else REACH
        steps = 0.99 * float(params["clamp"][1]) / largest
        if isinstance(spec, Conv2d) and spec.sum_first:
            params["m_r"] = _f32(REACH / 256)  # to real numbers, not to steps
        params["m_y"] = np.linspace(0.9 * steps, steps, len(acc), dtype=np.float32)
    overall = _fit(acc, bounds)
    for channel, sums in enumerate(acc):
        m = _fit(sums, bounds) if len(sums) >= TELLING_OUTPUTS else overall
        if channel % 2 == 0 and not spec.activation:
            m = _dyadic(m)
            # m is 1 or 3 times a power of two: an odd multiple of half its inverse gives a tie.
            half = int(0.5 / 2.0 ** np.floor(np.log2(m) - (m != 2.0 ** np.rint(np.log2(m)))))
            params["bias"][channel] += (half - int(sums[0])) % (2 * half) if half else 0
        params["m"][channel] = m
    params["m_neg"] = (params["m"] * np.float32(0.375)).astype(np.float32)


def _fit(sums: np.ndarray, bounds: np.ndarray) -> float:
    """Return the multiplier under which a share ``TAIL`` of the sums leaves ``bounds`` each way."""
    low, high = np.quantile(sums, (TAIL, 1 - TAIL))
    ends = [float(bound / end) for bound, end in zip(bounds, (low, high), strict=True) if end]
    fitting = [m for m in ends if m > 0]
    return max(fitting) if fitting else 1.0


def _dyadic(m: float) -> float:
    """Return the number nearest to ``m`` that is 1 or 3 times a power of two."""
    power = 2.0 ** np.floor(np.log2(m))
    return float(min((power, 1.5 * power, 2 * power), key=lambda near: abs(near - m)))
