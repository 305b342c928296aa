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

from relay_int8.frontend.onnx.contrib.fused import padded
from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.graph.dataflow import constant, dtype, shape

Attributes = dict[str, Any]
HIDDEN = -10000.0
"""What is added to a score that a mask hides, where a node does not say."""


@dataclass(frozen=True)
class Heads:
    """Queries, keys and values, each (batch, heads, tokens, size), and what scores get."""

    q: relax.Expr
    k: relax.Expr
    v: relax.Expr
    mask: relax.Expr | None
    bias: relax.Expr | None


def attention(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Attend within a sequence, whose queries, keys and values one product gives.

    The second result is keys and values, one above the other, with those of earlier tokens.
    """
    x, w, b, mask, past, bias, shared = padded(inputs, 7)
    _refuse(shared, attributes)
    packed = bb.emit(relax.op.matmul(x, w))
    if b is not None:
        packed = bb.emit(relax.op.add(packed, b))
    total = shape(packed)[-1]
    sizes = [int(size) for size in attributes.get("qkv_hidden_sizes", (total // 3,) * 3)]
    if sum(sizes) != total or sizes[0] != sizes[1]:
        raise ValueError(f"its product gives {total} channels for {sizes}")
    heads = int(attributes["num_heads"])
    q, k, v = (
        split_heads(bb, part_of(bb, packed, 2, sum(sizes[:i]), sum(sizes[: i + 1])), heads)
        for i in range(3)
    )
    if past is not None:
        parts = [part_of(bb, past, 0, i, i + 1) for i in range(2)]
        k, v = (
            continued(bb, bb.emit(relax.op.reshape(part, shape(part)[1:])), now)
            for part, now in zip(parts, (k, v), strict=True)
        )
    y = attended(bb, Heads(q, k, v, mask, bias), attributes)
    if attributes["tvm_custom"]["num_outputs"] == 1:
        return y
    rows = [bb.emit(relax.op.expand_dims(x, 0)) for x in (k, v)]
    return relax.Tuple([y, bb.emit(relax.op.concat(rows, 0))])


def multi_head_attention(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes
) -> relax.Expr:
    """Attend with given queries, keys and values.

    The second and third results are keys and values with those of earlier tokens.
    """
    q, k, v, b, mask, bias, past, past_value, *buffers = padded(inputs, 10)
    _refuse(next((each for each in buffers if each is not None), None), attributes)
    heads = int(attributes["num_heads"])
    parts = _unpacked(bb, q, k, v)
    if b is not None:
        parts = _biased(bb, parts, b)
    q, k, v = (part if len(shape(part)) == 4 else split_heads(bb, part, heads) for part in parts)
    if past is not None and past_value is not None:
        k, v = continued(bb, past, k), continued(bb, past_value, v)
    y = attended(bb, Heads(q, k, v, mask, bias), attributes)
    return y if attributes["tvm_custom"]["num_outputs"] == 1 else relax.Tuple([y, k, v])


def _refuse(shared: Any, attributes: Attributes) -> None:
    if shared is not None or attributes.get("past_present_share_buffer", 0):
        raise NotImplementedError("keys and values of earlier tokens in a buffer (shared past)")
    if attributes.get("do_rotary", 0):
        raise NotImplementedError("rotary positions inside it (do_rotary)")
    refuse_scores(attributes)


def refuse_scores(attributes: Attributes) -> None:
    """Refuse a node that gives scores besides its result, keys and values."""
    if attributes["tvm_custom"]["num_outputs"] > 3:
        raise NotImplementedError("products of queries and keys as a further result")


def part_of(bb: relax.BlockBuilder, x: relax.Expr, axis: int, begin: int, end: int) -> relax.Expr:
    """Return the elements from ``begin`` to ``end`` of an axis."""
    return bb.emit(relax.op.strided_slice(x, [axis], [begin], [end]))


def _unpacked(bb: relax.BlockBuilder, q: Any, k: Any, v: Any) -> list[relax.Expr]:
    """Return queries, keys and values apart, which may be packed head by head.

    All in ``q``, (batch, tokens, heads, 3, size), or two in ``k``, (batch, tokens, heads, 2, size).
    """
    if len(shape(q)) == 5:
        return _apart(bb, q)
    if k is not None and len(shape(k)) == 5:
        return [q, *_apart(bb, k)]
    if k is None or v is None:
        raise ValueError("its keys or values are missing")
    return [q, k, v]


def _apart(bb: relax.BlockBuilder, packed: relax.Expr) -> list[relax.Expr]:
    batch, tokens, heads, count, size = shape(packed)
    parts = [part_of(bb, packed, 3, i, i + 1) for i in range(count)]
    return [bb.emit(relax.op.reshape(part, (batch, tokens, heads * size))) for part in parts]


def _biased(bb: relax.BlockBuilder, parts: list[relax.Expr], bias: relax.Expr) -> list[relax.Expr]:
    """Add to queries, keys and values their part of a bias; those split to heads have had it."""
    biased, begin = [], 0
    for part in parts:
        end = begin + shape(part)[-1]
        if len(shape(part)) == 3:
            part = bb.emit(relax.op.add(part, part_of(bb, bias, 0, begin, end)))
        biased.append(part)
        begin = end
    return biased


def continued(bb: relax.BlockBuilder, past: relax.Expr, now: relax.Expr) -> relax.Expr:
    """Put the keys or values of earlier tokens in front, if there are any."""
    return bb.emit(relax.op.concat([past, now], 2)) if shape(past)[2] else now


def attended(bb: relax.BlockBuilder, given: Heads, attributes: Attributes) -> relax.Expr:
    """Return the attention of heads, (batch, tokens, channels), as the attributes of a node say."""
    q, k, v = given.q, given.k, given.v
    factor = float(attributes.get("scale", 0.0)) or 1 / math.sqrt(shape(q)[-1])
    turned = bb.emit(relax.op.permute_dims(k, [0, 1, 3, 2]))
    scores = bb.emit(relax.op.matmul(q, turned))
    scores = bb.emit(relax.op.multiply(scores, relax.const(factor, dtype(q))))
    if limit := float(attributes.get("softcap", 0.0)):
        shares = bb.emit(relax.op.divide(scores, relax.const(limit, dtype(q))))
        scores = bb.emit(relax.op.multiply(bb.emit(relax.op.tanh(shares)), relax.const(limit)))
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
    batch, tokens, heads, size = shape(joined)
    return bb.emit(relax.op.reshape(joined, (batch, tokens, heads * size)))


def split_heads(bb: relax.BlockBuilder, x: relax.Expr, heads: int) -> relax.Expr:
    """Return rows of channels as (batch, heads, tokens, size)."""
    batch, tokens, channels = shape(x)
    if channels % heads:
        raise ValueError(f"{channels} channels of {heads} heads")
    apart = bb.emit(relax.op.reshape(x, (batch, tokens, heads, channels // heads)))
    return bb.emit(relax.op.permute_dims(apart, [0, 2, 1, 3]))


def _added(
    bb: relax.BlockBuilder, mask: relax.Expr, scores: tuple[int, ...], hidden: float
) -> relax.Expr:
    """Return what a mask adds to scores: 0 where it is 1, or where a key is between two numbers.

    One number of a sentence is where it ends; a second one is where it begins.
    """
    batch, _, rows, columns = scores
    dims = shape(mask)
    if dims == (batch,) and constant(mask) is None:
        numbers = relax.const(np.arange(columns, dtype=dtype(mask))[None])
        lengths = bb.emit(relax.op.reshape(mask, (batch, 1)))
        seen, dims = bb.emit(relax.op.less(numbers, lengths)), (batch, columns)
    elif dims == (2 * batch,):
        numbers = relax.const(np.arange(columns, dtype=dtype(mask))[None])
        ends, begins = (
            bb.emit(relax.op.reshape(part_of(bb, mask, 0, at, at + batch), (batch, 1)))
            for at in (0, batch)
        )
        inside = relax.op.less(numbers, ends), relax.op.greater_equal(numbers, begins)
        seen = bb.emit(relax.op.logical_and(*(bb.emit(side) for side in inside)))
        dims = (batch, columns)
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
