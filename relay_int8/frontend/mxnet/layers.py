"""MXNet operators with weights: convolutions, fully connected layers, normalizations."""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.graph.dataflow import dtype, shape

CHANNELS_FIRST = ("NCW", "NCHW", "NCDHW")


def convolution(step: MxnetStep) -> relax.Expr:
    """Convolve in one to three dimensions."""
    attrs = step.attributes
    biased = not attrs.flag("no_bias", False)
    x, w, *bias = step.operands("data", "weight", *(["bias"] if biased else []))
    kernel, strides, dilation, pad = window(step, "dilate")
    groups = attrs.integer("num_group", 1, least=1)
    channels = attrs.integer("num_filter", least=1)
    expect_shape("weight", w, (channels, shape(x)[1] // groups, *kernel))
    op = (relax.op.nn.conv1d, relax.op.nn.conv2d, relax.op.nn.conv3d)[len(kernel) - 1]
    options = {"strides": strides, "padding": pad, "dilation": dilation}
    return with_bias(step, op(x, w, groups=groups, **options), bias, channels)


def deconvolution(step: MxnetStep) -> relax.Expr:
    """Convolve transposed, in one or two dimensions."""
    attrs = step.attributes
    biased = not attrs.flag("no_bias", True)
    x, w, *bias = step.operands("data", "weight", *(["bias"] if biased else []))
    kernel, strides, dilation, pad = window(step, "dilate")
    if len(kernel) > 2:
        raise NotImplementedError("a transposed convolution in three dimensions")
    groups = attrs.integer("num_group", 1, least=1)
    channels = attrs.integer("num_filter", least=1)
    expect_shape("weight", w, (shape(x)[1], channels // groups, *kernel))
    adjust = attrs.sizes("adj", (0,) * len(kernel), least=0)
    if attrs.integers("target_shape"):
        pad, adjust = _reaching_target(step, kernel, strides, dilation)
    op = (relax.op.nn.conv1d_transpose, relax.op.nn.conv2d_transpose)[len(kernel) - 1]
    options = {"strides": strides, "padding": pad, "dilation": dilation}
    y = op(x, w, groups=groups, output_padding=adjust, **options)
    return with_bias(step, y, bias, channels)


def _reaching_target(
    step: MxnetStep, kernel: tuple[int, ...], strides: tuple[int, ...], dilation: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return padding and adjustment with which a transposed convolution has ``target_shape``."""
    target = step.attributes.sizes("target_shape", (1,) * len(kernel), least=1)
    pads, adjusts = [], []
    sizes = shape(step.x)[2:]
    for size, wanted, k, s, d in zip(sizes, target, kernel, strides, dilation, strict=True):
        surplus = (size - 1) * s + (k - 1) * d + 1 - wanted
        if surplus < 0:
            raise ValueError(f"its target_shape {list(target)} is larger than what it computes")
        pads.append(-(-surplus // 2))
        adjusts.append(surplus % 2)
    return tuple(pads), tuple(adjusts)


def window(
    step: MxnetStep, dilation: str | None = None
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return kernel, stride, dilation and padding, checked against each other and the input."""
    attrs = step.attributes
    kernel = attrs.integers("kernel")
    rank = len(kernel)
    if not 1 <= rank <= 3 or len(shape(step.x)) != rank + 2:
        raise ValueError(f"its kernel {list(kernel)} does not fit an input {list(shape(step.x))}")
    layout = attrs.text("layout", CHANNELS_FIRST[rank - 1])
    if layout != CHANNELS_FIRST[rank - 1]:
        raise NotImplementedError(f"layout {layout}; only {CHANNELS_FIRST[rank - 1]}")
    ones = (1,) * rank
    return (
        attrs.sizes("kernel", ones, least=1),
        attrs.sizes("stride", ones, least=1),
        attrs.sizes(dilation, ones, least=1) if dilation else ones,
        attrs.sizes("pad", (0,) * rank, least=0),
    )


def expect_shape(what: str, value: relax.Expr, expected: tuple[int, ...]) -> None:
    """Raise ValueError if a weight has another shape than its node says."""
    if shape(value) != expected:
        raise ValueError(f"its {what} is {list(shape(value))}, not {list(expected)}")


def with_bias(step: MxnetStep, y: relax.Expr, bias: list[relax.Expr], channels: int) -> relax.Expr:
    """Add the bias of a convolution, where it has one."""
    if not bias:
        return y
    expect_shape("bias", bias[0], (channels,))
    var = step.emit("conv", y)
    ones = (1,) * (len(shape(var)) - 2)
    return relax.op.add(var, step.emit("bias", relax.op.reshape(bias[0], (1, -1, *ones))))


def fully_connected(step: MxnetStep) -> relax.Expr:
    """Multiply by the transposed weights; by default everything but the batch is one axis."""
    attrs = step.attributes
    biased = not attrs.flag("no_bias", False)
    x, w, *bias = step.operands("data", "weight", *(["bias"] if biased else []))
    units = attrs.integer("num_hidden", least=1)
    if attrs.flag("flatten", True) and len(shape(x)) != 2:
        batch, *rest = shape(x)
        x = step.emit("flatten", relax.op.reshape(x, (batch, math.prod(rest))))
    expect_shape("weight", w, (units, shape(x)[-1]))
    y = relax.op.matmul(x, step.emit("weight", relax.op.permute_dims(w, [1, 0])))
    if not bias:
        return y
    expect_shape("bias", bias[0], (units,))
    return relax.op.add(step.emit("matmul", y), bias[0])


def batch_norm(step: MxnetStep) -> relax.Expr:
    """Normalize with the moving statistics; gamma counts as one unless ``fix_gamma`` is False."""
    attrs = step.attributes
    x, *statistics = step.operands("data", "gamma", "beta", "moving_mean", "moving_var")
    rank = len(shape(x))
    axis = axis_of(attrs.integer("axis", 1), rank)
    names = ("gamma", "beta", "moving_mean", "moving_var")
    for name, value in zip(names, statistics, strict=True):
        expect_shape(name, value, (shape(x)[axis],))
    if attrs.flag("fix_gamma", True):
        statistics[0] = relax.const(np.ones(shape(x)[axis], dtype(x)))
    epsilon = attrs.real("eps", 1e-3)
    norm = relax.op.nn.batch_norm(x, *statistics, axis, epsilon, training=False)
    return relax.TupleGetItem(step.emit("batch_norm", norm), 0)


def axis_of(axis: int, rank: int) -> int:
    """Return an axis counted from the front."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} of an input with {rank} axes")
    return axis % rank


def instance_norm(step: MxnetStep) -> relax.Expr:
    """Normalize each channel of each image by its own mean and variance."""
    x, gamma, beta = step.operands("data", "gamma", "beta")
    axes = list(range(2, len(shape(x))))
    epsilon = step.attributes.real("eps", 1e-3)
    return relax.op.nn.instance_norm(x, gamma, beta, 1, axes, epsilon)


def layer_norm(step: MxnetStep) -> relax.Expr:
    """Normalize along one axis by its own mean and variance."""
    x, gamma, beta = step.operands("data", "gamma", "beta")
    axis = axis_of(step.attributes.integer("axis", -1), len(shape(x)))
    epsilon = step.attributes.real("eps", 1e-5)
    return relax.op.nn.layer_norm(x, gamma, beta, [axis], epsilon)


def group_norm(step: MxnetStep) -> relax.Expr:
    """Normalize groups of channels of each image by their own mean and variance."""
    x, gamma, beta = step.operands("data", "gamma", "beta")
    groups, channels = step.attributes.integer("num_groups", 1, least=1), shape(x)[1]
    if channels % groups:
        raise ValueError(f"{channels} channels are no {groups} groups")
    axes = list(range(2, len(shape(x))))
    epsilon = step.attributes.real("eps", 1e-5)
    return relax.op.nn.group_norm(x, gamma, beta, groups, 1, axes, epsilon)


def l2_normalization(step: MxnetStep) -> relax.Expr:
    """Divide by the root of the sum of squares: of an image, of a channel, or across channels."""
    x, attrs = step.x, step.attributes
    mode, rank = attrs.text("mode", "instance"), len(shape(x))
    axes = {"instance": range(1, rank), "channel": [1], "spatial": range(2, rank)}
    if mode not in axes:
        raise ValueError(f"its mode is {mode!r}, not one of {', '.join(axes)}")
    squares = step.emit("square", relax.op.square(x))
    total = step.emit("sum", relax.op.sum(squares, list(axes[mode]), keepdims=True))
    shifted = step.emit("add", relax.op.add(total, step.number(attrs.real("eps", 1e-10))))
    return relax.op.divide(x, step.emit("sqrt", relax.op.sqrt(shifted)))


def local_response_norm(step: MxnetStep) -> relax.Expr:
    """``x / (knorm + alpha * mean of the squares of nsize channels) ** beta``."""
    attrs, dims = step.attributes, shape(step.x)
    count = attrs.integer("nsize", least=1)
    if count % 2 == 0 or len(dims) != 4:
        raise ValueError(f"its nsize is {count}, its input {list(dims)}; expected odd, and images")
    n, channels, height, width = dims
    squares = step.emit("square", relax.op.square(step.x))
    rows = step.emit("rows", relax.op.reshape(squares, (n, 1, channels, height * width)))
    pool = relax.op.nn.avg_pool2d(rows, (count, 1), padding=(count // 2, 0), count_include_pad=True)
    mean = step.emit("mean", relax.op.reshape(step.emit("pool", pool), dims))
    scaled = step.emit("multiply", relax.op.multiply(mean, step.number(attrs.real("alpha", 1e-4))))
    shifted = step.emit("add", relax.op.add(scaled, step.number(attrs.real("knorm", 2.0))))
    power = relax.op.power(shifted, step.number(attrs.real("beta", 0.75)))
    return relax.op.divide(step.x, step.emit("power", power))


LAYERS: dict[str, Converter] = {
    "BatchNorm": batch_norm,
    "BatchNorm_v1": batch_norm,
    "Convolution": convolution,
    "Convolution_v1": convolution,
    "CuDNNBatchNorm": batch_norm,
    "Deconvolution": deconvolution,
    "FullyConnected": fully_connected,
    "GroupNorm": group_norm,
    "InstanceNorm": instance_norm,
    "L2Normalization": l2_normalization,
    "LRN": local_response_norm,
    "LayerNorm": layer_norm,
    "_contrib_SyncBatchNorm": batch_norm,
}
