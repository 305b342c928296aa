"""GroupQueryAttention of com.microsoft, which language models of ONNX Runtime have.

    k, v = concat(past, rotate(new))          the second and third result
    y = softmax(rotate(q) @ k' * scale + mask) @ v

Groups of query heads share a head of keys and values. A query sees itself and the tokens before
it. Where new keys go is computed from the mask; a file of fixed shapes says it by its shapes,
if no token is padding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.onnx.contrib.fused import padded
from relay_int8.frontend.onnx.contrib.fused_attention import (
    Heads,
    attended,
    continued,
    part_of,
    refuse_scores,
    split_heads,
)
from relay_int8.frontend.onnx.contrib.rotary import turned_heads
from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.graph.dataflow import constant, shape

Attributes = dict[str, Any]
SINK, SCALES = 11, 12
"""Numbers of the inputs that a kept share of attention, and scales of integer keys, would be."""


def _grouped_attention(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes
) -> relax.Expr:
    given = padded(inputs, SCALES + 2)
    _refuse(given, attributes)
    q, k, v = _split(bb, given[:3], attributes)
    past, past_value = given[3:5]
    tokens, earlier = shape(q)[2], 0 if past is None else shape(past)[2]
    _check_lengths(given[6], tokens, earlier, shape(q)[0])
    if attributes.get("do_rotary", 0):
        positions = given[9] or relax.const(np.arange(earlier, earlier + tokens)[None])
        interleaved = bool(attributes.get("rotary_interleaved", 0))
        tables = given[7], given[8]
        q, k = (
            turned_heads(bb, each, positions, tables, interleaved=interleaved) for each in (q, k)
        )
    if past is not None:
        k, v = continued(bb, past, k), continued(bb, past_value, v)
    bias = relax.const(_hidden(tokens, earlier, int(attributes.get("local_window_size", -1))))
    if given[10] is not None:
        bias = bb.emit(relax.op.add(given[10], bias))
    groups = shape(q)[1] // shape(k)[1]
    heads = Heads(q, _shared(bb, k, groups), _shared(bb, v, groups), None, bias)
    y = attended(bb, heads, attributes)
    return y if attributes["tvm_custom"]["num_outputs"] == 1 else relax.Tuple([y, k, v])


def _refuse(given: list[Any], attributes: Attributes) -> None:
    if given[SINK] is not None or attributes.get("smooth_softmax", 0):
        raise NotImplementedError("a share of attention that no key gets (smooth_softmax)")
    if any(given[SCALES:]) or attributes.get("kv_cache_bit_width", 0):
        raise NotImplementedError("keys and values of earlier tokens as integers")
    refuse_scores(attributes)


def _split(
    bb: relax.BlockBuilder, packed: list[Any], attributes: Attributes
) -> tuple[relax.Expr, relax.Expr, relax.Expr]:
    """Return queries, keys and values, (batch, heads, tokens, size); one input may have all."""
    q, k, v = packed
    heads, shared = int(attributes["num_heads"]), int(attributes["kv_num_heads"])
    if k is None:
        size = shape(q)[-1] // (heads + 2 * shared)
        ends = np.cumsum([heads, shared, shared]) * size
        begins = (0, *ends[:-1])
        q, k, v = (
            part_of(bb, q, 2, int(begin), int(end)) for begin, end in zip(begins, ends, strict=True)
        )
    return split_heads(bb, q, heads), split_heads(bb, k, shared), split_heads(bb, v, shared)


def _check_lengths(total: Any, tokens: int, earlier: int, batch: int) -> None:
    """Refuse what shapes do not say: how many of the earlier tokens there are."""
    number = constant(total)
    if number is None:
        raise NotImplementedError(
            "its total_sequence_length is computed from values; fix the shape of the mask, or "
            "the value, ImportOptions(values={'NAME': NUMBER})"
        )
    if int(number.reshape(())) != earlier + tokens:
        raise NotImplementedError(
            f"a buffer of {earlier} earlier tokens for {int(number.reshape(()))} altogether "
            "(shared past); give it as many as there are"
        )
    if earlier and batch != 1:
        raise NotImplementedError("several sequences with earlier tokens, which may be padded")


def _hidden(tokens: int, earlier: int, window: int) -> np.ndarray:
    """Return float32 (tokens, keys): minus infinity where a query does not see a key."""
    query = np.arange(earlier, earlier + tokens)[:, None]
    key = np.arange(earlier + tokens)[None]
    is_seen = key <= query
    if window > 0:
        is_seen &= key > query - window
    return np.where(is_seen, 0, -np.inf).astype(np.float32)


def _shared(bb: relax.BlockBuilder, x: relax.Expr, groups: int) -> relax.Expr:
    """Return heads of keys or values, each as often as query heads share it."""
    if groups == 1:
        return x
    batch, heads, tokens, size = shape(x)
    each = bb.emit(relax.op.expand_dims(x, 2))
    each = bb.emit(relax.op.broadcast_to(each, (batch, heads, groups, tokens, size)))
    return bb.emit(relax.op.reshape(each, (batch, heads * groups, tokens, size)))


GROUPED: dict[str, Converter] = {"GroupQueryAttention": _grouped_attention}
"""The operator of the domain com.microsoft."""
