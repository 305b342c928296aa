"""ONNX's convolutions and products of matrices, with their operands as the file holds them."""

from __future__ import annotations

from typing import Any

from tvm import relax

from relay_int8.frontend.einsum import einsum
from relay_int8.frontend.onnx.operators.auto_pad import window_padding
from relay_int8.frontend.small_matrices import determinant
from relay_int8.graph.dataflow import shape


def conv(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Convolve in one to three dimensions, ``auto_pad`` written out as four widths."""
    x, w, *bias = inputs
    rank = len(shape(x)) - 2
    strides = attributes.get("strides", (1,) * rank)
    dilation = attributes.get("dilations", (1,) * rank)
    padding = window_padding(attributes, shape(x)[2:], shape(w)[2:], strides, dilation)
    op = (relax.op.nn.conv1d, relax.op.nn.conv2d, relax.op.nn.conv3d)[rank - 1]
    y = op(
        x,
        w,
        strides=list(strides),
        padding=list(padding),
        dilation=list(dilation),
        groups=attributes.get("group", 1),
    )
    if not bias or bias[0] is None:
        return y
    return relax.op.add(bb.emit(y), relax.op.reshape(bias[0], (1, -1, *(1,) * rank)))


def gemm(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """``alpha * a @ b + beta * c``, alpha after the product so that it can fold into constant b."""
    a, b, *c = inputs
    dtype = a.ty.dtype.dtype
    if attributes.get("transA", 0):
        a = bb.emit(relax.op.permute_dims(a, [1, 0]))
    if attributes.get("transB", 0):
        b = bb.emit(relax.op.permute_dims(b, [1, 0]))
    y = relax.op.matmul(a, b)
    alpha, beta = (float(attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    if alpha != 1.0:
        y = relax.op.multiply(bb.emit(y), relax.const(alpha, dtype))
    if not c or c[0] is None:
        return y
    bias = c[0] if beta == 1.0 else relax.op.multiply(c[0], relax.const(beta, dtype))
    return relax.op.add(bb.emit(y), bias)


def einsum_of(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Write an einsum as products of matrices, sums and moves."""
    equation = attributes["equation"].decode()
    return einsum(inputs, equation, lambda _, value: bb.emit(value))


def det(bb: relax.BlockBuilder, inputs: list[Any], _: dict[str, Any]) -> relax.Expr:
    """Expand the determinant of small matrices."""
    return determinant(lambda _name, value: bb.emit(value), inputs[0])
