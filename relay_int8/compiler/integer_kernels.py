"""A group with Q/DQ around it -> the spec and the constants of one integer kernel.

This is where the numeric contract (docs/design.md, "Arithmetic") is derived from float weights,
scales and zero points; ``numerics.qparams`` does the arithmetic, ``numerics.multipliers`` makes
constants of real multipliers. Tables hold every result, and need none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from relay_int8.errors import CalibrationError
from relay_int8.graph import dataflow
from relay_int8.graph.geometry import (
    conv2d_fields,
    dense_fields,
    interpolate_fields,
    move_fields,
    pool2d_counts,
    pool2d_fields,
)
from relay_int8.graph.groups import (
    AFFINE,
    INTERPOLATE,
    PAIRS,
    SAMPLE,
    Clip,
    Group,
    Leaky,
    pad_value,
)
from relay_int8.graph.spec_calls import spec_of
from relay_int8.numerics import qparams
from relay_int8.numerics.interpolation import UNIT, axis_taps
from relay_int8.numerics.multipliers import MULTIPLIERS, multiplier_constants
from relay_int8.numerics.qparams import QParams
from relay_int8.numerics.unary import UNARY
from schedules.spec import (
    Binary,
    Concat,
    Conv2d,
    Dense,
    Dequantize,
    Interpolate,
    Move,
    Pool2d,
    Quantize,
    Requantize,
    Requantizing,
    Rescale,
    Sample2d,
    Spec,
    Table,
)

Constants = dict[str, np.ndarray]
Kernel = tuple[Spec, Constants]


def integer_kernel(
    group: Group, xs: Sequence[QParams], y: QParams | None, requantize: Requantize = "float"
) -> Kernel:
    """Return spec and constants of ``group`` in integers.

    Parameters
    ----------
    group
        A group whose activations are all dequantized integers.
    xs
        Parameters of its inputs, in the order of ``group.inputs``. Those of a concat, and those
        that a move or a max pooling passes on, equal y's: the caller rescales.
    y
        Parameters of its result, or None where the result stays float.
    requantize
        By what its sums are scaled; one that gives floats has float multipliers anyhow.
    """
    if group.kind in ("conv2d", "dense"):
        return _scaled(_linear(group, xs, y), requantize)
    assert y is not None
    if group.kind == "function" or group.kind in UNARY:
        return _table(group, xs[0], y)
    return _scaled(_KERNELS[group.kind](group, xs, y), requantize)


def quantize_kernel(shape: tuple[int, ...], y: QParams) -> Kernel:
    """Return the kernel that quantizes a float tensor of ``shape``."""
    constants = {"s": _one(y.scale), "z": _zeros(y), "clamp": y.clamp}
    return Quantize(dims=shape, y=y.dtype), constants


def pixel_kernel(shape: tuple[int, ...], y: QParams, table: np.ndarray) -> Kernel:
    """Return the kernel that looks raw pixels up in ``table``, (channels * 256,)."""
    return Table(dims=shape, x="uint8", y=y.dtype, by_channel=True), {"table": table}


def dequantize_kernel(shape: tuple[int, ...], x: QParams) -> Kernel:
    """Return the kernel that dequantizes an integer tensor of ``shape``."""
    return Dequantize(dims=shape, x=x.dtype), {"s": _one(x.scale), "z": _zeros(x)}


def rescale_kernel(
    shape: tuple[int, ...], x: QParams, y: QParams, requantize: Requantize = "float"
) -> Kernel:
    """Return the kernel that moves an integer tensor from x's parameters to y's."""
    return _scaled(_rescale(shape, x, y), requantize)


def _scaled(kernel: Kernel, requantize: Requantize) -> Kernel:
    """Turn the real multipliers of a kernel into its constants."""
    spec, constants = kernel
    if isinstance(spec, Requantizing) and spec.dtype("y") != "float32":
        spec = replace(spec, requantize=requantize)
    reals = {name: constants.pop(name) for name in MULTIPLIERS if name in constants}
    if "clamp" in constants:
        constants["clamp"] = constants["clamp"].astype(spec.constant_dtype("clamp"))
    return spec, constants | multiplier_constants(spec, reals)


def _rescale(shape: tuple[int, ...], x: QParams, y: QParams) -> Kernel:
    constants = {"m": qparams.rescale_multiplier(x.scale, y.scale), "z": _zeros(x, y)}
    return Rescale(dims=shape, x=x.dtype, y=y.dtype), constants | {"clamp": y.clamp}


def linear_refusal(group: Group, x: QParams) -> str | None:
    """Say why a convolution or matrix product of ``x`` has no exact int32 sums, or None."""
    if group.weight is None or group.weight.scale is None:
        return "its weights are not int8 with zero point 0 and a scale a channel"
    try:
        return qparams.accumulator_refusal(*_weight_and_bias(group, x), x)
    except CalibrationError as error:
        return str(error)


def _weight_and_bias(group: Group, x: QParams) -> tuple[np.ndarray, np.ndarray]:
    assert group.weight is not None and group.weight.scale is not None
    s_w = group.weight.scale
    rows = group.weight.values if group.kind == "conv2d" else group.weight.values.T
    bias = np.zeros(len(s_w), np.float32) if group.bias is None else group.bias
    weight = np.ascontiguousarray(qparams.quantize_weight(rows, s_w))
    return weight, qparams.quantize_bias(bias, x.scale, s_w)


def _linear(group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
    assert group.weight is not None and group.weight.scale is not None
    x, s_w = xs[0], group.weight.scale
    conv = group.kind == "conv2d"
    s_y = np.float32(1) if y is None else y.scale
    weight, bias = _weight_and_bias(group, x)
    constants = {
        "w": weight,
        "bias": bias,
        "m": qparams.multiplier(x.scale, s_w, s_y),
        "z": np.array([x.zero_point, y.zero_point if y else 0, 0], np.int32),
        "clamp": _clamp(group.activation, y),
    }
    leaky = isinstance(group.activation, Leaky)
    if isinstance(group.activation, Leaky):
        slopes = qparams.leaky_multiplier(x.scale, s_w, s_y, group.activation.slope)
        constants["m_neg"] = np.broadcast_to(slopes, constants["m"].shape).copy()
    types: dict[str, Any] = {"x": x.dtype, "y": y.dtype if y else "float32", "leaky": leaky}
    if not conv:
        return Dense(**dense_fields(group), **types), constants
    if group.residual:
        assert y is not None
        types["residual"] = xs[1].dtype
        constants["m_r"] = qparams.rescale_multiplier(xs[1].scale, y.scale)
        constants["z"][2] = xs[1].zero_point
    return Conv2d(**conv2d_fields(group), **types), constants


def _clamp(activation: Clip | Leaky | None, y: QParams | None) -> np.ndarray:
    """Return the bounds of ``q - z``, or of the float result where it has no parameters."""
    clip = activation if isinstance(activation, Clip) else Clip(-np.inf, np.inf)
    bounds = np.array([clip.low, clip.high])
    if y is None:
        return bounds.astype(np.float32)
    steps = np.rint(bounds / np.float64(y.scale))
    return np.clip(steps, *y.clamp).astype(np.float32)


def _each_rescaled(group: Group, xs: Sequence[QParams], y: QParams) -> Kernel:
    """Return a kernel whose operands are scaled apart; a subtrahend by a multiplier below zero."""
    constants = {}
    for name, var, x in zip(("m_a", "m_b"), group.inputs, xs, strict=True):
        sign = -1 if group.kind == "sub" and var.same_as(group.root.args[1]) else 1
        constants[name] = sign * qparams.rescale_multiplier(x.scale, y.scale)
    return _binary(group, xs, y, constants)


def _mul(group: Group, xs: Sequence[QParams], y: QParams) -> Kernel:
    return _binary(
        group, xs, y, {"m": qparams.product_multiplier(xs[0].scale, xs[1].scale, y.scale)}
    )


def _binary(group: Group, xs: Sequence[QParams], y: QParams, constants: Constants) -> Kernel:
    a, b = xs
    spec = Binary(
        operator="add" if group.kind == "sub" else group.kind,  # type: ignore[arg-type]
        a_shape=dataflow.shape(group.inputs[0]),
        b_shape=dataflow.shape(group.inputs[1]),
        a=a.dtype,
        b=b.dtype,
        y=y.dtype,
    )
    return spec, constants | {"z": _zeros(a, b, y), "clamp": _clamp(group.activation, y)}


def _max_pool(group: Group, xs: Sequence[QParams], y: QParams) -> Kernel:
    return Pool2d(**pool2d_fields(group), x=xs[0].dtype, y=y.dtype), {}


def _avg_pool(group: Group, xs: Sequence[QParams], y: QParams) -> Kernel:
    constants = {
        "m": qparams.average_multipliers(xs[0].scale, y.scale, pool2d_counts(group)),
        "z": _zeros(xs[0], y),
        "clamp": _clamp(group.activation, y),
    }
    return Pool2d(**pool2d_fields(group), x=xs[0].dtype, y=y.dtype), constants


def _concat(group: Group, xs: Sequence[QParams], y: QParams) -> Kernel:
    shapes = tuple(dataflow.shape(var) for var in group.inputs)
    axis = int(group.root.attrs.axis) % len(shapes[0])
    return Concat(shapes=shapes, axis=axis, x=y.dtype), {}


def _move(group: Group, xs: Sequence[QParams], y: QParams) -> Kernel:
    spec = Move(**move_fields(group), x=y.dtype)
    fill = qparams.constant_integer(pad_value(group), y)
    return spec, {"fill": np.array([fill], y.dtype)} if spec.params else {}


def _sample(group: Group, xs: Sequence[QParams], y: QParams) -> Kernel:
    spec, x = spec_of(group.root), xs[0]
    assert isinstance(spec, Sample2d)
    constants = {"m": qparams.rescale_multiplier(x.scale, y.scale), "z": _zeros(x, y)}
    return replace(spec, x=x.dtype, y=y.dtype), constants | {"clamp": y.clamp}


def _interpolate(group: Group, xs: Sequence[QParams], y: QParams) -> Kernel:
    spec = Interpolate(**interpolate_fields(group), x=xs[0].dtype, y=y.dtype)
    mode = str(group.root.attrs.coordinate_transformation_mode)
    constants = {
        "rows": axis_taps(spec.height, spec.out_size[0], mode),
        "columns": axis_taps(spec.width, spec.out_size[1], mode),
        "m": qparams.average_multipliers(xs[0].scale, y.scale, np.array([UNIT**2])),
        "z": _zeros(xs[0], y),
    }
    return spec, constants | {"clamp": y.clamp}


def _affine(group: Group, xs: Sequence[QParams], y: QParams) -> Kernel:
    """Return a convolution of each channel by one weight."""
    assert group.affine is not None
    x, shift = xs[0], group.affine.shift
    reals = group.affine.scale.reshape(-1, 1, 1, 1)
    s_w = qparams.weight_scales(reals, shift, x.scale)
    batch, channels, height, width = dataflow.shape(group.root)
    spec = Conv2d(
        batch=batch,
        in_channels=channels,
        height=height,
        width=width,
        out_channels=channels,
        kernel=(1, 1),
        groups=channels,
        x=x.dtype,
        y=y.dtype,
    )
    constants = {
        "w": qparams.quantize_weight(reals, s_w),
        "bias": qparams.quantize_bias(shift, x.scale, s_w),
        "m": qparams.multiplier(x.scale, s_w, y.scale),
        "z": np.array([x.zero_point, y.zero_point, 0], np.int32),
    }
    return spec, constants | {"clamp": _clamp(group.activation, y)}


def _activation(group: Group, xs: Sequence[QParams], y: QParams) -> Kernel:
    spec, constants = _rescale(dataflow.shape(group.root), xs[0], y)
    constants["clamp"] = _clamp(group.activation, y)
    if not isinstance(group.activation, Leaky):
        return spec, constants
    slope = np.broadcast_to(group.activation.slope, (dataflow.shape(group.root)[1],))
    constants["m_neg"] = qparams.rescale_multiplier_leaky(xs[0].scale, y.scale, slope)
    return Rescale(dims=dataflow.shape(group.root), x=xs[0].dtype, y=y.dtype, leaky=True), constants


def _table(group: Group, x: QParams, y: QParams) -> Kernel:
    function = UNARY[group.kind] if group.function is None else group.function
    table = qparams.unary_table(function, x, y)
    return Table(dims=dataflow.shape(group.root), x=x.dtype, y=y.dtype), {"table": table}


def _zeros(*params: QParams) -> np.ndarray:
    return np.array([item.zero_point for item in params], np.int32)


def _one(value: np.float32) -> np.ndarray:
    return np.array([value], np.float32)


_KERNELS: dict[str, Callable[[Group, Sequence[QParams], QParams], Kernel]] = {
    **dict.fromkeys(PAIRS, _each_rescaled),
    "mul": _mul,
    "max_pool2d": _max_pool,
    "avg_pool2d": _avg_pool,
    "concat": _concat,
    "activation": _activation,
    AFFINE: _affine,
    "reshape": _move,
    "transpose": _move,
    "slice": _move,
    "shuffle": _move,
    "pad": _move,
    "resize": _move,
    INTERPOLATE: _interpolate,
    SAMPLE: _sample,
}
