"""Deformable convolutions of any format: sample the image where offsets say, then convolve 1x1.

    s[n, (g * taps + k) * C/G + c, y, x] = image[n, g * C/G + c] at
                                           (y, x) * stride - pad + tap k * dilation + offset[n, k]
    result                               = 1x1 convolution of s, with the taps as channels

The samples are one operator of ours (``schedules.spec.Sample2d``); the convolution is one as any
other. Taps are outside of channels, so that a block of channels lies at one place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from tvm import relax

from relay_int8.graph.dataflow import constant, dtype, operator, shape
from relay_int8.graph.spec_calls import kernel_call
from schedules.spec import Padding, Pair, Sample2d

Emit = Callable[[str, relax.Expr], relax.Var]
MOST_SAMPLES = 1 << 24  # sampling coordinates of all taps: an image of 1300 x 1300 under 9 taps


def deformable_conv2d(
    emit: Emit,
    operands: Sequence[relax.Expr],
    w: relax.Expr,
    *,
    strides: Pair,
    padding: Padding,
    dilation: Pair,
    groups: int,
    parts: int,
    rim: Literal["zero", "edge"],
) -> relax.Expr:
    """Return a deformable convolution, without bias.

    Parameters
    ----------
    emit
        Binds a value on the way to the result, under a name that says which step it is.
    operands
        Image (n, c, h, w), offsets, and a mask where there is one: as ``Sample2d`` has them.
    w
        (filters, c / groups, kernel rows, kernel columns); a constant, plain or dequantized, or
        computed.
    rim
        What lies beyond the image, see ``Sample2d``.

    Raises
    ------
    ValueError
        Shapes that do not fit each other.
    """
    batch, channels, height, width = shape(operands[0])
    filters, inside, *kernel = shape(w)
    if channels % parts or filters % groups or inside * groups != channels:
        raise ValueError(
            f"{channels} channels in groups of {groups} and {parts}, weights {list(shape(w))}"
        )
    spec = Sample2d(
        batch=batch,
        channels=channels,
        height=height,
        width=width,
        kernel=(kernel[0], kernel[1]),
        strides=strides,
        padding=padding,
        dilation=dilation,
        groups=groups,
        parts=parts,
        masked=len(operands) > 2,
        rim=rim,
        x="float32",
        y="float32",
    )
    if min(spec.out_size) < 1 or spec.taps * math.prod(spec.out_size) > MOST_SAMPLES:
        raise ValueError(f"its kernel {kernel} does not fit {[height, width]}")
    for name, operand in zip(spec.tensors, operands, strict=True):
        expected = spec.shape(name)
        if shape(operand) != tuple(expected):
            raise ValueError(f"its {name} is {list(shape(operand))}, not {list(expected)}")
    columns = kernel_call(spec, operands, {})
    if groups == channels and _picks_taps(w, spec):
        return columns
    columns = emit("samples", columns)
    return relax.op.nn.conv2d(columns, _rows(emit, w, spec), groups=groups)


def _picks_taps(w: relax.Expr, spec: Sample2d) -> bool:
    """Whether the weights do nothing but tell taps apart, so that the samples are the result."""
    array = constant(w)
    return array is not None and np.array_equal(array, one_tap_each(spec.channels, spec.kernel))


def _rows(emit: Emit, w: relax.Expr, spec: Sample2d) -> relax.Expr:
    """Return the weights (filters, taps * channels, 1, 1), as the columns have their channels."""
    array = constant(w)
    filters, inside = shape(w)[:2]
    flat = (filters, spec.taps * inside, 1, 1)
    if array is not None:
        return _constant(array, flat)
    q = constant(w.args[0]) if operator(w) == "dequantize" else None
    if q is not None and int(w.attrs.axis) % 4 == 0:
        return emit("weight", relax.op.dequantize(_constant(q, flat), *w.args[1:], 0, dtype(w)))
    turned = emit("turned", relax.op.permute_dims(w, [0, 2, 3, 1]))
    return emit("weight", relax.op.reshape(turned, flat))


def _constant(array: np.ndarray, flat: tuple[int, ...]) -> relax.Expr:
    return relax.const(np.ascontiguousarray(array.transpose(0, 2, 3, 1).reshape(flat)))


def one_tap_each(channels: int, kernel: Pair) -> np.ndarray:
    """Return weights (channels * taps, 1, rows, columns) of a convolution of ``channels`` groups.

    Each output is one tap of one channel: such a convolution gives the samples themselves.
    """
    taps = kernel[0] * kernel[1]
    return np.tile(np.eye(taps, dtype=np.float32), (channels, 1)).reshape(-1, 1, *kernel)
