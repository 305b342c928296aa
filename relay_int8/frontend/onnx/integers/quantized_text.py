"""Attention and embeddings of com.microsoft with integer operands, as those of reals between pairs.

    Before:  y = QAttention(x_q, w_q, b, s_x, s_w, mask, z_x, z_w)
    After:   y = Attention(dequantize(x_q), dequantize(w_q), b, mask)

ONNX Runtime's ``quantize_static`` and ``quantize_dynamic`` write them for models that its optimizer
of transformers has fused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.onnx.contrib.fused import embedding_norm, padded
from relay_int8.frontend.onnx.contrib.fused_attention import attention
from relay_int8.frontend.onnx.integers.quantized import Pairs
from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.frontend.onnx.operators.operands import known_array
from relay_int8.graph.dataflow import dtype

Attributes = dict[str, Any]
TABLES = 5  # quantized operands of an embedding norm: three tables, gamma, beta


def _attention(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    x, w, b, s_x, s_w, mask, z_x, z_w, past = padded(inputs, 9)
    pairs = Pairs(bb)
    is_real = dtype(x) == "float32"  # of DynamicQuantizeLinear, which is left out
    x = x if is_real else pairs.real(x, s_x, z_x)
    w = _constant(w, s_w, z_w) if is_real else pairs.real(w, s_w, z_w, axis=-1)
    return attention(bb, [x, w, b, mask, past, None], attributes)


def _constant(q: Any, scale: Any, zero: Any) -> relax.Expr:
    """Return constant integers as reals; their parameters are one, or one for each column."""
    array, s = known_array(q, "its table is"), known_array(scale, "its scale is")
    z = np.zeros(()) if zero is None else known_array(zero, "its zero point is")
    s, z = (a.reshape(()) if a.size == 1 else a for a in (s, z))
    reals = (array.astype(np.float64) - z) * s.astype(np.float64)
    return relax.const(reals.astype(np.float32))


def _embedding_norm(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes
) -> relax.Expr:
    ids, segments, *operands = padded(inputs, 18)
    tables, (mask, *parameters) = operands[:TABLES], operands[TABLES:]
    scales, zeros = parameters[:TABLES], parameters[TABLES:]
    words, places, kinds, gamma, beta = (
        None if table is None else _constant(table, scale, zero)
        for table, scale, zero in zip(tables, scales, zeros, strict=True)
    )
    given = [ids, segments, words, places, kinds, gamma, beta, mask]
    return embedding_norm(bb, given, attributes)


QUANTIZED_TEXT: dict[str, Converter] = {
    "QAttention": _attention,
    "QEmbedLayerNormalization": _embedding_norm,
}
"""Operators of the domain com.microsoft."""
