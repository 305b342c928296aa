"""ONNX's Fourier transforms, of an axis and of frames, as products with constant weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.fourier import inverse_weights, transform_weights
from relay_int8.frontend.onnx.operators.operands import known_array, known_integers
from relay_int8.graph.dataflow import arguments, constant, operator, shape

Attributes = dict[str, Any]
OPSET_OF_AXIS_INPUT = 20
"""Opset from which DFT has its axis as an input, the last but one by default."""


def dft(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Transform along one axis: a product with constant weights.

    The last axis of operand and result is that of real and imaginary part; a real operand has the
    first alone. So does one whose imaginary part is written as zeros: what reads the real one is a
    dense layer then, and has half of the products. A longer transform reads zeros behind the axis,
    a shorter one a part of it. Half of a spectrum (``inverse`` and ``onesided``) gives reals.
    """
    x, length, given = (*inputs, None, None)[:3]
    x = _real_part(bb, x)
    if attributes["tvm_custom"]["opset"] >= OPSET_OF_AXIS_INPUT:
        axis = -2 if given is None else known_integers(given, "its axis is")[0]
    else:
        axis = int(attributes.get("axis", 1))
    dims, inverse = shape(x), bool(attributes.get("inverse", 0))
    rank, axis = len(dims), axis % len(dims)
    size, onesided = dims[axis], bool(attributes.get("onesided", 0))
    back = inverse and onesided
    if axis == rank - 1:
        raise NotImplementedError(f"a transform of {size} values along axis {axis}")
    default = 2 * (size - 1) if back else size
    wanted = default if length is None else known_integers(length, "its length is")[0]
    read = min(size, wanted // 2 + 1 if back else wanted)
    if read < size:
        x = bb.emit(relax.op.strided_slice(x, [axis], [0], [read]))
    order = [i for i in range(rank - 1) if i != axis] + [axis, rank - 1]
    turned = bb.emit(relax.op.permute_dims(x, order))
    outer = [dims[i] for i in order[:-2]]
    flat = bb.emit(relax.op.reshape(turned, (*outer, read * dims[-1])))
    if back:
        halves = np.split(inverse_weights(wanted) / wanted, 2)[: dims[-1]]
        weights = np.stack([half[:read] for half in halves], axis=1).reshape(-1, wanted)
        outcome = (wanted, 1)
    else:
        count = wanted // 2 + 1 if onesided else wanted
        weights = transform_weights(wanted, count, dims[-1], inverse)[: read * dims[-1]]
        outcome = (count, 2)
    product = bb.emit(relax.op.matmul(flat, relax.const(weights.astype(np.float32))))
    parts = bb.emit(relax.op.reshape(product, (*outer, *outcome)))
    return relax.op.permute_dims(parts, [order.index(i) for i in range(rank)])


def stft(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Transform the frames of a signal, each times a window: a convolution with constant weights.

    (n, samples) or (n, samples, 1) becomes (n, frames, frequencies, 2), real and imaginary part.
    """
    x, given_step, given_window, given_length = (*inputs, None, None)[:4]
    n, samples, *parts = shape(x)
    if parts not in ([], [1]):
        raise NotImplementedError("its signal is of complex numbers")
    (step,) = known_integers(given_step, "its frame_step is")
    window = None if given_window is None else known_array(given_window, "its window is")
    if window is None and given_length is None:
        raise ValueError("neither a window nor a frame_length is given")
    length = (
        len(window)
        if window is not None
        else known_integers(given_length, "its frame_length is")[0]
    )
    count = length // 2 + 1 if attributes.get("onesided", 1) else length
    weights = transform_weights(length, count, 1, inverse=False).T
    if window is not None:
        weights = (weights * window).astype(np.float32)
    image = bb.emit(relax.op.reshape(x, (n, 1, 1, samples)))
    kernel = relax.const(weights.reshape(2 * count, 1, 1, length))
    y = bb.emit(relax.op.nn.conv2d(image, kernel, strides=[1, step]))
    frames = shape(y)[-1]
    y = bb.emit(relax.op.reshape(y, (n, count, 2, frames)))
    return relax.op.permute_dims(y, [0, 3, 1, 2])


def _real_part(bb: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    """Return the real part of ``x`` where zeros are joined to it, else ``x``."""
    call = bb.lookup_binding(x) if isinstance(x, relax.Var) else None
    if call is None or operator(call) != "concat":
        return x
    axis, parts = int(call.attrs.axis) % len(shape(x)), arguments(call)
    imaginary = constant(parts[-1])
    is_real = len(parts) == 2 and axis == len(shape(x)) - 1 and shape(parts[0])[-1] == 1
    return parts[0] if is_real and imaginary is not None and not imaginary.any() else x
