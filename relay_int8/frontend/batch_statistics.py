"""Batch norms by the statistics of what they read: of weights, that is weight standardization."""

from __future__ import annotations

from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.graph.dataflow import dtype, shape


def normalized_by_batch(
    emit: Emit,
    x: relax.Expr,
    gamma: relax.Expr | None,
    beta: relax.Expr | None,
    epsilon: float,
) -> relax.Expr:
    """Return ``(x - mean) / sqrt(variance + epsilon) * gamma + beta``, all by channel (axis 1)."""
    rank = len(shape(x))
    axes = [axis for axis in range(rank) if axis != 1]
    mean = emit("mean", relax.op.mean(x, axes, keepdims=True))
    variance = emit("variance", relax.op.variance(x, axes, keepdims=True))
    bounded = emit("bounded", relax.op.add(variance, relax.const(epsilon, dtype(x))))
    deviation = emit("deviation", relax.op.sqrt(bounded))
    apart = emit("apart", relax.op.subtract(x, mean))
    y: relax.Expr = relax.op.divide(apart, deviation)
    for part, combine in ((gamma, relax.op.multiply), (beta, relax.op.add)):
        if part is not None:
            by_channel = relax.op.reshape(part, (1, -1, *(1,) * (rank - 2)))
            y = combine(emit("normalized", y), emit("by_channel", by_channel))
    return y
