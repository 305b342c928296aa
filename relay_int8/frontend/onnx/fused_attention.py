"""ONNX Runtime's own attention operators, written in matrix products and a softmax.

q, k, v = split(x @ w + b)                     Attention; given to MultiHeadAttention
y = softmax(q @ k' * scale + bias + mask) @ v
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.onnx.converters import Converter
from relay_int8.frontend.onnx.fused import padded
from relay_int8.graph.dataflow import constant, dtype, shape

Attributes = dict[str, Any]
HIDDEN = -10000.0
"""What is added to a score that a mask hides, where a node does not say."""


@dataclass(frozen=True)
class _Heads:
    """Queries, keys and values, each (batch, tokens, channels), and what scores get."""

    q: relax.Expr
    k: relax.Expr
    v: relax.Expr
    mask: relax.Expr | None
    bias: relax.Expr | None


def attention(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Attend within a sequence, whose queries, keys and values one product gives."""
    x, w, b, mask, past, bias, *_ = padded(inputs, 6)
    _refuse(past, attributes)
    packed = bb.emit(relax.op.matmul(x, w))
    if b is not None:
        packed = bb.emit(relax.op.add(packed, b))
    total = shape(packed)[-1]
    sizes = [int(size) for size in attributes.get("qkv_hidden_sizes", (total // 3,) * 3)]
    if sum(sizes) != total or sizes[0] != sizes[1]:
        raise ValueError(f"its product gives {total} channels for {sizes}")
    q, k, v = (
        bb.emit(relax.op.strided_slice(packed, [2], [sum(sizes[:i])], [sum(sizes[: i + 1])]))
        for i in range(3)
    )
    return _attended(bb, _Heads(q, k, v, mask, bias), attributes)


def multi_head_attention(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes
) -> relax.Expr:
    """Attend with given queries, keys and values."""
    q, k, v, b, mask, bias, past, past_value, *_ = padded(inputs, 8)
    _refuse(past if past is not None else past_value, attributes)
    parts = [q, k, v]
    if any(part is None or len(shape(part)) != 3 for part in parts):
        raise NotImplementedError(
            "packed queries, keys and values, or such that are split to heads"
        )
    if b is not None:
        ends = np.cumsum([shape(part)[-1] for part in parts]).tolist()
        begins = [0, *ends[:-1]]
        biases = [
            bb.emit(relax.op.strided_slice(b, [0], [begin], [end]))
            for begin, end in zip(begins, ends, strict=True)
        ]
        parts = [
            bb.emit(relax.op.add(part, term)) for part, term in zip(parts, biases, strict=True)
        ]
    q, k, v = parts
    return _attended(bb, _Heads(q, k, v, mask, bias), attributes)


def _refuse(past: Any, attributes: Attributes) -> None:
    if past is not None:
        raise NotImplementedError("keys and values of earlier tokens (past)")
    if attributes.get("do_rotary", 0):
        raise NotImplementedError("rotary positions inside it (do_rotary)")
    if attributes["tvm_custom"]["num_outputs"] > 1:
        raise NotImplementedError("keys and values as further results (present)")


def _attended(bb: relax.BlockBuilder, given: _Heads, attributes: Attributes) -> relax.Expr:
    heads = int(attributes["num_heads"])
    q, k, v = (_split(bb, x, heads) for x in (given.q, given.k, given.v))
    factor = float(attributes.get("scale", 0.0)) or 1 / math.sqrt(shape(q)[-1])
    turned = bb.emit(relax.op.permute_dims(k, [0, 1, 3, 2]))
    scores = bb.emit(relax.op.matmul(q, turned))
    scores = bb.emit(relax.op.multiply(scores, relax.const(factor, dtype(q))))
    if given.bias is not None:
        scores = bb.emit(relax.op.add(scores, given.bias))
    hidden = float(attributes.get("mask_filter_value", HIDDEN))
    if given.mask is not None:
        scores = bb.emit(relax.op.add(scores, _added(bb, given.mask, shape(scores), hidden)))
    if attributes.get("unidirectional", 0):
        rows, columns = shape(scores)[-2:]
        later = np.triu(np.full((rows, columns), hidden, np.float32), columns - rows + 1)
        scores = bb.emit(relax.op.add(scores, relax.const(later)))
    shares = bb.emit(relax.op.nn.softmax(scores, -1))
    joined = bb.emit(relax.op.permute_dims(bb.emit(relax.op.matmul(shares, v)), [0, 2, 1, 3]))
    batch, tokens = shape(given.q)[:2]
    return relax.op.reshape(joined, (batch, tokens, shape(given.v)[-1]))


def _split(bb: relax.BlockBuilder, x: relax.Expr, heads: int) -> relax.Expr:
    batch, tokens, channels = shape(x)
    if channels % heads:
        raise ValueError(f"{channels} channels of {heads} heads")
    apart = bb.emit(relax.op.reshape(x, (batch, tokens, heads, channels // heads)))
    return bb.emit(relax.op.permute_dims(apart, [0, 2, 1, 3]))


def _added(
    bb: relax.BlockBuilder, mask: relax.Expr, scores: tuple[int, ...], hidden: float
) -> relax.Expr:
    """Return what a mask adds to scores: 0 where it is 1, or where a key is among the first."""
    batch, _, rows, columns = scores
    dims = shape(mask)
    if dims == (batch,) and constant(mask) is None:
        numbers = relax.const(np.arange(columns, dtype=dtype(mask))[None])
        lengths = bb.emit(relax.op.reshape(mask, (batch, 1)))
        seen, dims = bb.emit(relax.op.less(numbers, lengths)), (batch, columns)
    elif dims in ((batch, columns), (batch, rows, columns)):
        seen = bb.emit(relax.op.greater(mask, relax.const(0, dtype(mask))))
    else:
        raise NotImplementedError(
            f"a mask of {list(dims)}; one number for each key, or for each query and key, is read"
        )
    apart = (batch, *[1] * (4 - len(dims)), *dims[1:])
    seen = bb.emit(relax.op.reshape(seen, apart))
    nothing, much = (relax.const(value, "float32") for value in (0.0, hidden))
    return bb.emit(relax.op.where(seen, nothing, much))


ATTENTION: dict[str, Converter] = {
    "Attention": attention,
    "MultiHeadAttention": multi_head_attention,
}
