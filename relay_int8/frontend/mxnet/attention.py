"""MXNet's products of attention, whose operands are packed: (sequence, batch, channels).

Of self-attention a head has its channels of query, key and value side by side; of attention to
another sequence the keys and values lie so.
"""

from __future__ import annotations

import math

from tvm import relax

from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.graph.dataflow import shape


def _head_matrices(step: MxnetStep, packed: relax.Expr, parts: int, part: int) -> relax.Expr:
    """Return one part of every head as (batch * heads, sequence, channels of a head)."""
    heads = step.attributes.integer("heads", least=1)
    length, batch, width = _sizes(packed)
    if width % (heads * parts):
        raise ValueError(f"{width} channels for {heads} heads of {parts} parts")
    depth = width // (heads * parts)
    x = step.emit("heads", relax.op.reshape(packed, (length, batch, heads, parts, depth)))
    if parts > 1:
        x = step.emit("part", relax.op.strided_slice(x, [3], [part], [part + 1]))
    x = step.emit("part", relax.op.reshape(x, (length, batch, heads, depth)))
    x = step.emit("moved", relax.op.permute_dims(x, [1, 2, 0, 3]))
    return step.emit("matrices", relax.op.reshape(x, (batch * heads, length, depth)))


def _sizes(packed: relax.Expr) -> tuple[int, ...]:
    if len(shape(packed)) != 3:
        raise ValueError(f"its input is {list(shape(packed))}, not (sequence, batch, channels)")
    return shape(packed)


def _scores(step: MxnetStep, q: relax.Expr, k: relax.Expr) -> relax.Expr:
    """Return the products of queries, divided by the root of their depth, and keys."""
    scale = step.number(1 / math.sqrt(shape(q)[-1]))
    scaled = step.emit("scaled", relax.op.multiply(q, scale))
    turned = step.emit("turned", relax.op.permute_dims(k, [0, 2, 1]))
    return relax.op.matmul(scaled, turned)


def _values(step: MxnetStep, shares: relax.Expr, v: relax.Expr, batch: int) -> relax.Expr:
    """Return the sums of values by shares, heads joined, as (sequence, batch, channels)."""
    product = step.emit("product", relax.op.matmul(shares, v))
    matrices, length, depth = shape(product)
    heads = matrices // batch
    x = step.emit("heads", relax.op.reshape(product, (batch, heads, length, depth)))
    x = step.emit("moved", relax.op.permute_dims(x, [2, 0, 1, 3]))
    return relax.op.reshape(x, (length, batch, heads * depth))


def _self_scores(step: MxnetStep) -> relax.Expr:
    (packed,) = step.operands("queries_keys_values")
    return _scores(step, *(_head_matrices(step, packed, 3, part) for part in (0, 1)))


def _self_values(step: MxnetStep) -> relax.Expr:
    packed, shares = step.operands("queries_keys_values", "attention")
    return _values(step, shares, _head_matrices(step, packed, 3, 2), _sizes(packed)[1])


def _cross_scores(step: MxnetStep) -> relax.Expr:
    queries, packed = step.operands("queries", "keys_values")
    return _scores(step, _head_matrices(step, queries, 1, 0), _head_matrices(step, packed, 2, 0))


def _cross_values(step: MxnetStep) -> relax.Expr:
    packed, shares = step.operands("keys_values", "attention")
    return _values(step, shares, _head_matrices(step, packed, 2, 1), _sizes(packed)[1])


def _div_sqrt_dim(step: MxnetStep) -> relax.Expr:
    """Divide by the root of the last extent."""
    (x,) = step.operands("data")
    return relax.op.multiply(x, step.number(1 / math.sqrt(shape(x)[-1])))


ATTENTION: dict[str, Converter] = {
    "_contrib_div_sqrt_dim": _div_sqrt_dim,
    "_contrib_interleaved_matmul_encdec_qk": _cross_scores,
    "_contrib_interleaved_matmul_encdec_valatt": _cross_values,
    "_contrib_interleaved_matmul_selfatt_qk": _self_scores,
    "_contrib_interleaved_matmul_selfatt_valatt": _self_values,
}
