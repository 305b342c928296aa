"""ONNX's normalizations, where TVM's importer leaves out a result or Relax an axis."""

from __future__ import annotations

from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from relay_int8.frontend.batch_statistics import normalized_by_batch
from relay_int8.graph.dataflow import constant, dtype, shape

Attributes = dict[str, Any]


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
        epsilon = float(attributes.get("epsilon", 1e-5))
        return normalized_by_batch(lambda _, y: bb.emit(y), x, gamma, beta, epsilon)
    results = onnx_frontend.BatchNormalization._impl_v15(bb, inputs, attributes, [{}, {}])
    return results.fields[0]


def layer_norm(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Normalize from ``axis`` on; mean and 1 / deviation are results where the node names them."""
    arguments = onnx_frontend.onnx_input([*inputs, *[None] * (3 - len(inputs))])
    y = onnx_frontend.LayerNormalization._impl_v17(bb, arguments, attributes, [{}, {}]).fields[0]
    if attributes["tvm_custom"]["num_outputs"] == 1:
        return y
    x = inputs[0]
    axes = _axes(x, attributes)
    epsilon = relax.const(float(attributes.get("epsilon", 1e-5)), dtype(x))
    variance = bb.emit(relax.op.variance(x, axes, keepdims=True))
    deviation = bb.emit(relax.op.rsqrt(bb.emit(relax.op.add(variance, epsilon))))
    mean = bb.emit(relax.op.mean(x, axes, keepdims=True))
    return relax.Tuple([bb.emit(y), mean, deviation])


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
    if axes[0] > 0:
        return onnx_frontend.RMSNormalization._impl_v23(bb, inputs, attributes, [{}, {}])
    epsilon = relax.const(float(attributes.get("epsilon", 1e-5)), dtype(x))
    squares = bb.emit(relax.op.mean(bb.emit(relax.op.multiply(x, x)), axes, keepdims=True))
    factor = bb.emit(relax.op.rsqrt(bb.emit(relax.op.add(squares, epsilon))))
    return relax.op.multiply(bb.emit(relax.op.multiply(x, factor)), scale)


def _axes(x: relax.Expr, attributes: Attributes) -> list[int]:
    rank = len(shape(x))
    return list(range(int(attributes.get("axis", -1)) % rank, rank))
