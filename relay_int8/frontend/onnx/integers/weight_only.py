"""Operators of com.microsoft with weights of a few bits in blocks, as those of a float model.

    Before:  y = MatMulNBits(x, blocks of 4 bits, scales, zero points)
    After:   y = x @ w', w a float constant

Nothing says by which integers ``x`` is to be multiplied: ranges are found by calibration, and the
weights are quantized as those of any float model.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.onnx.contrib.fused import padded
from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.frontend.onnx.operators.operands import Array, known_array

Attributes = dict[str, Any]
BITS = 4  # of operators that do not say
FP4 = (0, 0.0052083333, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
"""What four bits stand for in bitsandbytes, less the sign, which is the fourth."""
NF4 = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
"""Quantiles of a normal distribution (QLoRA, appendix E)."""
LEVELS = (np.array([*FP4, *(-level for level in FP4)], np.float32), np.array(NF4, np.float32))


def _unpacked(packed: Array, bits: int, count: int) -> Array:
    """Return the first ``count`` integers of each row of bytes, the low bits first."""
    if bits == 8:
        return packed[..., :count]
    flags = np.unpackbits(packed, axis=-1, bitorder="little")[..., : count * bits]
    places = flags.reshape(*packed.shape[:-1], -1, bits)
    return np.asarray((places << np.arange(bits, dtype=np.uint8)).sum(-1, dtype=np.uint8))


def _matmul(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Multiply by weights of (n, blocks, bytes of a block)."""
    x, packed, scales, zeros, order, bias = padded(inputs, 6)
    if order is not None:
        raise NotImplementedError("the columns of its weights have an order of their own (g_idx)")
    n, k, block = (int(attributes[name]) for name in ("N", "K", "block_size"))
    bits, blocks = int(attributes.get("bits", BITS)), math.ceil(k / block)
    q = _unpacked(known_array(packed, "its weight is").reshape(n, blocks, -1), bits, block)
    s = known_array(scales, "its scale is").reshape(n, blocks, 1)
    z: Array = np.full((1, 1), 1 << bits - 1)
    if zeros is not None:
        z = known_array(zeros, "its zero point is")
        z = _unpacked(z.reshape(n, -1), bits, blocks) if z.dtype == np.uint8 else z
        z = z.reshape(n, blocks)
    w = _reals(q, s, z[..., None]).reshape(n, -1)[:, :k]
    return _product(bb, x, w, bias)


def _product(bb: relax.BlockBuilder, x: relax.Expr, w: Array, bias: Any = None) -> relax.Expr:
    y = relax.op.matmul(x, relax.const(np.ascontiguousarray(w.T, np.float32)))
    return y if bias is None else relax.op.add(bb.emit(y), bias)


def _reals(q: Array, s: Array, z: Array) -> Array:
    return np.asarray((q.astype(np.float64) - z) * s.astype(np.float64), np.float32)


def _rows(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Look up rows of a table, whose blocks lie along one axis."""
    table, ids, scales, zeros = padded(inputs, 4)
    q, s = known_array(table, "its table is"), known_array(scales, "its scale is")
    bits, block = int(attributes.get("bits", BITS)), int(attributes.get("block_size", 128))
    is_packed = q.dtype == np.uint8 and bits < 8
    along = int(attributes.get("quantize_axis", 1)) % q.ndim
    if is_packed:
        q = _unpacked(q, bits, q.shape[-1] * 8 // bits)
    z = np.asarray(1 << bits - 1 if q.dtype == np.uint8 else 0)
    if zeros is not None:
        z = known_array(zeros, "its zero point is")
        z = _unpacked(z, bits, s.shape[-1]) if is_packed else z
    wide = [a if a.ndim == 0 else repeated(a, along, block, q.shape[along]) for a in (s, z)]
    real = relax.const(_reals(q, *wide))
    return relax.op.take(real, ids, int(attributes.get("gather_axis", 0)))


def repeated(parameters: Array, axis: int, block: int, count: int) -> Array:
    """Return parameters of blocks along an axis of ``count`` elements as one for each element."""
    each = np.repeat(parameters, block, axis)
    return np.asarray(np.take(each, np.arange(count), axis))


def _by_level(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Multiply by weights of (n, k) levels of four bits, the high ones first, as bitsandbytes."""
    x, packed, largest = inputs
    n, k, block = (int(attributes[name]) for name in ("N", "K", "block_size"))
    q = known_array(packed, "its weight is").reshape(-1)
    levels = LEVELS[int(attributes["quant_type"])]
    reals = levels[np.stack([q >> 4, q & 15], -1).reshape(-1)[: n * k]]
    scales = np.repeat(known_array(largest, "its scale is").reshape(-1), block)[: n * k]
    w = (reals * scales).reshape(n, k) if attributes.get("transB", 1) else None
    if w is None:
        raise NotImplementedError("its weights are not transposed (transB=0)")
    return _product(bb, x, w)


WEIGHT_ONLY: dict[str, Converter] = {
    "GatherBlockQuantized": _rows,
    "MatMulBnb4": _by_level,
    "MatMulNBits": _matmul,
}
"""Operators of the domain com.microsoft."""
