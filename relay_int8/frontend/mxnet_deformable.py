"""MXNet's deformable convolutions: sample the image where offsets say, then convolve 1x1.

    s[n, c * K + k, y, x] = image[n, c] at (y * stride - pad + k * dilation + offset[n, k, y, x])
    result                = 1x1 convolution of s, with the taps of the weights as channels

The samples are interpolated in float; the 1x1 convolution is one as any other.
"""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from relay_int8.frontend.mxnet_layers import expect_shape, window, with_bias
from relay_int8.frontend.mxnet_step import Converter, Step
from relay_int8.graph import shape

MOST_POSITIONS = 1 << 25  # an image of 1300 x 1300 under 9 taps


def deformable_convolution(step: Step) -> relax.Expr:
    """Sample by offsets; a position outside the image counts as zero, one at its rim as the rim."""
    return _convert(step, modulated=False)


def modulated_convolution(step: Step) -> relax.Expr:
    """Sample by offsets, fading out beyond the image, and scale each sample by its mask."""
    return _convert(step, modulated=True)


def _convert(step: Step, *, modulated: bool) -> relax.Expr:
    attrs = step.attributes
    names = ["data", "offset", *(["mask"] if modulated else []), "weight"]
    biased = not attrs.flag("no_bias", False)
    x, offset, *mask, w = step.operands(*names, *(["bias"] if biased else []))[: len(names)]
    kernel, strides, dilation, pad = window(step, "dilate")
    if len(kernel) != 2:
        raise NotImplementedError(f"deformable convolution in {len(kernel)} dimensions")
    channels, taps = shape(x)[1], kernel[0] * kernel[1]
    parts = attrs.integer("num_deformable_group", 1, least=1)
    groups = attrs.integer("num_group", 1, least=1)
    filters = attrs.integer("num_filter", least=1)
    if channels % parts or channels % groups:
        raise ValueError(f"{channels} channels in groups of {groups} and {parts}")
    expect_shape("weight", w, (filters, channels // groups, *kernel))
    base = _positions(shape(x)[2:], kernel, strides, dilation, pad)
    batch, area = shape(x)[0], base.shape[-2:]
    expect_shape("offset", offset, (batch, 2 * taps * parts, *area))
    for value in mask:
        expect_shape("mask", value, (batch, taps * parts, *area))
    width = channels // parts
    sampled = [
        _sampled(
            step,
            _channels(step, x, part * width, width),
            _channels(step, offset, part * 2 * taps, 2 * taps),
            _channels(step, mask[0], part * taps, taps) if mask else None,
            base,
        )
        for part in range(parts)
    ]
    rows = step.emit("samples", relax.op.concat(sampled, axis=1)) if parts > 1 else sampled[0]
    flat = relax.op.reshape(w, (filters, channels // groups * taps, 1, 1))
    y = relax.op.nn.conv2d(rows, step.emit("weight", flat), groups=groups)
    return with_bias(step, y, list(step.inputs[len(names) :]), filters)


def _positions(
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    dilation: tuple[int, ...],
    pad: tuple[int, ...],
) -> np.ndarray:
    """Return where each tap reads without offsets: (1, taps, row and column, height, width)."""
    counts = [
        (size + 2 * p - d * (k - 1) - 1) // stride + 1
        for size, k, stride, d, p in zip(sizes, kernel, strides, dilation, pad, strict=True)
    ]
    if min(counts) < 1 or 2 * math.prod((*counts, *kernel)) > MOST_POSITIONS:
        raise ValueError(f"its kernel {list(kernel)} does not fit {list(sizes)}")
    axes = [
        np.arange(k)[:, None] * d + np.arange(count) * stride - p
        for count, k, stride, d, p in zip(counts, kernel, strides, dilation, pad, strict=True)
    ]
    (kh, height), (kw, width) = (axis.shape for axis in axes)
    rows = np.broadcast_to(axes[0][:, None, :, None], (kh, kw, height, width))
    columns = np.broadcast_to(axes[1][None, :, None, :], (kh, kw, height, width))
    both = np.stack([rows, columns], axis=2).reshape(1, kh * kw, 2, height, width)
    return both.astype("float32")


def _channels(step: Step, x: relax.Expr, begin: int, count: int) -> relax.Expr:
    if count == shape(x)[1]:
        return x
    return step.emit("part", relax.op.strided_slice(x, [1], [begin], [begin + count]))


def _sampled(
    step: Step, x: relax.Expr, offset: relax.Expr, mask: relax.Expr | None, base: np.ndarray
) -> relax.Expr:
    """Return the samples of all taps: (batch, channels * taps, height, width)."""
    batch, channels, *sizes = shape(x)
    taps, _, height, width = base.shape[1:]
    apart = step.emit("offset", relax.op.reshape(offset, (batch, *base.shape[1:])))
    places = step.emit("places", relax.op.add(apart, relax.const(base)))
    wide = (batch, 1, taps * height, width)
    rim = "zeros"
    if mask is None:
        rim, mask = "border", _inside(step, places, sizes)
    samples = relax.op.image.grid_sample(
        x, _grid(step, places, sizes), "bilinear", "NCHW", rim, align_corners=False
    )
    flat = step.emit("mask", relax.op.reshape(mask, wide))
    scaled = step.emit("masked", relax.op.multiply(step.emit("sampled", samples), flat))
    return step.emit("samples", relax.op.reshape(scaled, (batch, channels * taps, height, width)))


def _grid(step: Step, places: relax.Expr, sizes: list[int]) -> relax.Expr:
    """Return places as grid_sample has them: column before row, -1 and 1 the image's edges.

    Its grid is (batch, 2, height, width), whatever its manual says.
    """
    batch, taps, _, height, width = shape(places)
    extents = np.array(sizes, "float32").reshape(1, 1, 2, 1, 1)
    scaled = step.emit("scaled", relax.op.multiply(places, relax.const(2 / extents)))
    moved = step.emit("moved", relax.op.add(scaled, relax.const(1 / extents - 1)))
    turned = step.emit("turned", relax.op.flip(moved, 2))
    first = step.emit("first", relax.op.permute_dims(turned, [0, 2, 1, 3, 4]))
    return step.emit("grid", relax.op.reshape(first, (batch, 2, taps * height, width)))


def _inside(step: Step, places: relax.Expr, sizes: list[int]) -> relax.Expr:
    """Return 1 where a place lies within the image, from 0 to below its size, else 0."""
    extents = relax.const(np.array(sizes, "float32").reshape(1, 1, 2, 1, 1))
    low = step.emit("low", relax.op.greater_equal(places, relax.const(0.0, "float32")))
    high = step.emit("high", relax.op.less(places, extents))
    both = step.emit("both", relax.op.logical_and(low, high))
    return step.emit(
        "inside", relax.op.min(step.emit("numbers", relax.op.astype(both, "float32")), [2])
    )


DEFORMABLE: dict[str, Converter] = {
    "_contrib_DeformableConvolution": deformable_convolution,
    "_contrib_ModulatedDeformableConvolution": modulated_convolution,
}
