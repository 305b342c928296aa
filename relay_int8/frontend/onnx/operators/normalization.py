"""ONNX's normalizations, where TVM's importer leaves out a result or Relax an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from relay_int8.frontend.batch_statistics import normalized_by_batch
from relay_int8.graph.dataflow import constant, dtype, shape

Attributes = dict[str, Any]
EPSILON = 1e-5


def batch_norm(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Normalize by the statistics of the file, or weights by their own (training_mode).

    What training returns besides is not computed.
    """
    if attributes.get("training_mode", 0):
        x, gamma, beta = inputs[:3]
        if constant(x) is None:
            raise NotImplementedError(
                "it normalizes by the statistics of the batch (training_mode = 1): export the "
                "model in evaluation mode"
            )
        epsilon = float(attributes.get("epsilon", EPSILON))
        return normalized_by_batch(lambda _, y: bb.emit(y), x, gamma, beta, epsilon)
    results = onnx_frontend.BatchNormalization._impl_v15(bb, inputs, attributes, [{}, {}])
    return results.fields[0]


def layer_norm(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Normalize from ``axis`` on; mean and 1 / deviation are results where the node names them.

    TVM's importer takes as many axes as the scale has.
    """
    x, scale, bias = (*inputs, None)[:3]
    axes, number = _axes(x, attributes), float(attributes.get("epsilon", EPSILON))
    dims = shape(x)[axes[0] :]
    gamma = _along(bb, scale, dims)
    beta = None if gamma is None or bias is None else _along(bb, bias, dims)
    ones, zeros = (relax.const(np.full(dims, value), dtype(x)) for value in (1, 0))
    factors, terms = ones if gamma is None else gamma, zeros if beta is None else beta
    y = bb.emit(relax.op.nn.layer_norm(x, factors, terms, axes, number))
    if gamma is None:
        y = bb.emit(relax.op.multiply(y, scale))
    if bias is not None and beta is None:
        y = bb.emit(relax.op.add(y, bias))
    if attributes["tvm_custom"]["num_outputs"] == 1:
        return y
    epsilon = relax.const(number, dtype(x))
    variance = bb.emit(relax.op.variance(x, axes, keepdims=True))
    deviation = bb.emit(relax.op.rsqrt(bb.emit(relax.op.add(variance, epsilon))))
    mean = bb.emit(relax.op.mean(x, axes, keepdims=True))
    return relax.Tuple([y, mean, deviation])


def lp_norm(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Divide by the sum of magnitudes (p = 1), or the root of the sum of squares; zeros stay."""
    (x,) = inputs
    axis, order = int(attributes.get("axis", -1)), int(attributes.get("p", 2))
    powers = bb.emit(relax.op.abs(x) if order == 1 else relax.op.multiply(x, x))
    norm = bb.emit(relax.op.sum(powers, axis, keepdims=True))
    if order == 2:
        norm = bb.emit(relax.op.sqrt(norm))
    is_zero = bb.emit(relax.op.equal(norm, relax.const(0.0, dtype(x))))
    divisor = bb.emit(relax.op.where(is_zero, relax.const(1.0, dtype(x)), norm))
    return relax.op.divide(x, divisor)


def rms_norm(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Divide by the root of the mean square from ``axis`` on.

    TVM 0.27 cannot compile its own operator where no axis is left before.
    """
    x, scale = inputs
    axes = _axes(x, attributes)
    gamma = _along(bb, scale, shape(x)[axes[0] :])
    if axes[0] > 0 and gamma is not None:
        return onnx_frontend.RMSNormalization._impl_v23(bb, [x, gamma], attributes, [{}, {}])
    epsilon = relax.const(float(attributes.get("epsilon", EPSILON)), dtype(x))
    squares = bb.emit(relax.op.mean(bb.emit(relax.op.multiply(x, x)), axes, keepdims=True))
    factor = bb.emit(relax.op.rsqrt(bb.emit(relax.op.add(squares, epsilon))))
    return relax.op.multiply(bb.emit(relax.op.multiply(x, factor)), scale)


def _along(
    bb: relax.BlockBuilder, parameter: relax.Expr, dims: tuple[int, ...]
) -> relax.Expr | None:
    """Return a scale or a bias of the normalized extents; None where it has other axes too."""
    own = shape(parameter)
    if own == dims:
        return parameter
    if any(extent != 1 for extent in own[: -len(dims)]):
        return None
    inner = bb.emit(relax.op.reshape(parameter, own[-len(dims) :]))
    return bb.emit(relax.op.broadcast_to(inner, dims))


def _axes(x: relax.Expr, attributes: Attributes) -> list[int]:
    rank = len(shape(x))
    return list(range(int(attributes.get("axis", -1)) % rank, rank))
