"""RotaryEmbedding of com.microsoft, as models of transformers write it.

    y = x * cos + rotate_half(x) * sin        rotate_half(x) = concat(-x2, x1) of the halves of x

An interleaved one pairs neighbours instead of halves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.graph.dataflow import dtype, shape

Attributes = dict[str, Any]


def _rotary(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Turn pairs of channels of each head, (batch, tokens, channels) or split to heads."""
    x, positions, cosines, sines = inputs
    if attributes.get("is_packed_batching", 0):
        raise NotImplementedError("its tokens are packed (is_packed_batching)")
    width = 2 * shape(cosines)[-1]
    given, is_split = shape(x), len(shape(x)) == 4
    if not is_split:
        batch, tokens, channels = given
        heads = int(attributes.get("num_heads", 0)) or channels // width
        apart = bb.emit(relax.op.reshape(x, (batch, tokens, heads, channels // heads)))
        x = bb.emit(relax.op.permute_dims(apart, [0, 2, 1, 3]))
    interleaved = bool(attributes.get("interleaved", 0))
    y = turned_heads(bb, x, positions, (cosines, sines), interleaved=interleaved)
    if is_split:
        return y
    joined = bb.emit(relax.op.permute_dims(bb.emit(y), [0, 2, 1, 3]))
    return relax.op.reshape(joined, given)


def turned_heads(
    bb: relax.BlockBuilder,
    x: relax.Expr,
    positions: Any,
    tables: tuple[Any, Any],
    *,
    interleaved: bool,
) -> relax.Expr:
    """Turn heads, (batch, heads, tokens, size), by the rows of cosines and sines at positions."""
    rows = [_rows(bb, table, positions, shape(x)[2]) for table in tables]
    return _turned(bb, x, rows, 2 * shape(tables[0])[-1], interleaved=interleaved)


def _rows(bb: relax.BlockBuilder, table: Any, positions: Any, tokens: int) -> relax.Expr:
    """Return the rows of a table, (batch, 1, tokens, pairs); one position is that of the first."""
    if len(shape(positions)) == 1:
        steps = relax.const(np.arange(tokens)[None], dtype(positions))
        first = bb.emit(relax.op.reshape(positions, (1, 1)))
        positions = bb.emit(relax.op.add(first, steps))
    rows = bb.emit(relax.op.take(table, positions, 0))
    return bb.emit(relax.op.expand_dims(rows, 1))


def _turned(
    bb: relax.BlockBuilder,
    x: relax.Expr,
    tables: list[relax.Expr],
    width: int,
    *,
    interleaved: bool,
) -> relax.Expr:
    batch, heads, tokens, size = shape(x)
    turned = x if width == size else _part(bb, x, 0, width)
    pairs = (batch, heads, tokens, width // 2, 2)
    if interleaved:
        halves = bb.emit(
            relax.op.permute_dims(bb.emit(relax.op.reshape(turned, pairs)), [0, 1, 2, 4, 3])
        )
        turned = bb.emit(relax.op.reshape(halves, (batch, heads, tokens, width)))
    first, second = _part(bb, turned, 0, width // 2), _part(bb, turned, width // 2, width)
    rotated = bb.emit(relax.op.concat([bb.emit(relax.op.negative(second)), first], -1))
    cosine, sine = (bb.emit(relax.op.concat([table, table], -1)) for table in tables)
    terms = relax.op.multiply(turned, cosine), relax.op.multiply(rotated, sine)
    y = bb.emit(relax.op.add(*(bb.emit(term) for term in terms)))
    if interleaved:
        halves = bb.emit(relax.op.reshape(y, (batch, heads, tokens, 2, width // 2)))
        y = bb.emit(relax.op.permute_dims(halves, [0, 1, 2, 4, 3]))
        y = bb.emit(relax.op.reshape(y, (batch, heads, tokens, width)))
    return y if width == size else relax.op.concat([y, _part(bb, x, width, size)], -1)


def _part(bb: relax.BlockBuilder, x: relax.Expr, begin: int, end: int) -> relax.Expr:
    return bb.emit(relax.op.strided_slice(x, [3], [begin], [end]))


ROTARY: dict[str, Converter] = {"RotaryEmbedding": _rotary}
"""The operator of the domain com.microsoft."""
