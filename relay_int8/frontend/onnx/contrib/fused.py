"""Operators of com.microsoft that ONNX Runtime's optimizers write, as the standard ones they join.

Before:  y = FusedMatMul(a, b, transB=1, alpha=0.1)
After:   y = (a @ b') * 0.1
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.frontend.onnx.operators.converters import CONVERTERS
from relay_int8.frontend.onnx.operators.normalization import EPSILON, rms_norm
from relay_int8.graph.dataflow import constant, dtype, shape

Attributes = dict[str, Any]
Activation = Callable[[relax.Expr, list[float]], relax.Expr]
EPSILON_OF_EMBEDDINGS = 1e-12  # ONNX Runtime's; of all other norms it is the standard's
QUICK = 1.702
"""Factor of x in the logistic function of quick GELU, where a node does not say."""


def padded(inputs: list[Any], count: int) -> list[Any]:
    """Return operands, None for those that are left out at the end."""
    return [*inputs, *[None] * (count - len(inputs))]


def emitted(bb: relax.BlockBuilder, value: relax.Expr) -> relax.Expr:
    """Bind a call; other values are bound already."""
    return bb.emit(value) if isinstance(value, relax.Call) else value


def _sum(bb: relax.BlockBuilder, *terms: Any) -> relax.Expr:
    """Add the operands that are there."""
    total, *others = [term for term in terms if term is not None]
    for other in others:
        total = bb.emit(relax.op.add(total, other))
    return total


def _gelu(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """GELU; that of opset 20 may be the approximation by tanh."""
    if attributes.get("approximate", b"none") == b"tanh":
        return relax.op.nn.gelu_tanh(inputs[0])
    return relax.op.nn.gelu(_sum(bb, *inputs))


def _fast_gelu(bb: relax.BlockBuilder, inputs: list[Any], _: Attributes) -> relax.Expr:
    return relax.op.nn.gelu_tanh(_sum(bb, *inputs))


def _gemm_fast_gelu(bb: relax.BlockBuilder, inputs: list[Any], _: Attributes) -> relax.Expr:
    x, w, bias = padded(inputs, 3)
    return relax.op.nn.gelu_tanh(_sum(bb, bb.emit(relax.op.matmul(x, w)), bias))


def _split_gelu(bb: relax.BlockBuilder, inputs: list[Any], _: Attributes) -> relax.Expr:
    """Multiply one half of the channels by the GELU of the other."""
    total = _sum(bb, *inputs)
    half, last = shape(total)[-1] // 2, len(shape(total)) - 1
    x, gate = (
        bb.emit(relax.op.strided_slice(total, [last], [begin], [begin + half]))
        for begin in (0, half)
    )
    return relax.op.multiply(x, bb.emit(relax.op.nn.gelu(gate)))


def _quick_gelu(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    x = inputs[0]
    factor = relax.const(float(attributes.get("alpha", QUICK)), dtype(x))
    gate = bb.emit(relax.op.sigmoid(bb.emit(relax.op.multiply(x, factor))))
    return relax.op.multiply(x, gate)


def _matmul(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    a, b = (
        _turned(
            bb,
            x,
            matrix=bool(attributes.get(f"trans{name}", 0)),
            batch=bool(attributes.get(f"transBatch{name}", 0)),
        )
        for x, name in zip(inputs, "AB", strict=True)
    )
    y = relax.op.matmul(a, b)
    alpha = float(attributes.get("alpha", 1.0))
    return y if alpha == 1.0 else relax.op.multiply(bb.emit(y), relax.const(alpha, dtype(a)))


def _turned(bb: relax.BlockBuilder, x: relax.Expr, *, matrix: bool, batch: bool) -> relax.Expr:
    """Transpose matrices; of a transposed batch the first axis is that of the rows, or columns."""
    order = list(range(len(shape(x))))
    if batch and len(order) > 2:
        order = [*order[1:-1], 0, order[-1]]
    if matrix:
        order[-2:] = order[:-3:-1]
    return bb.emit(relax.op.permute_dims(x, order)) if order != sorted(order) else x


def _activated(name: str, operands: int) -> Converter:
    """Compute a standard operator, add what stands behind its operands, and activate the sum."""

    def _convert(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
        *given, residual = padded(inputs, operands + 1)
        y = _sum(bb, emitted(bb, CONVERTERS[name](bb, given, attributes)), residual)
        kind = attributes.get("activation", b"").decode()
        if kind not in ACTIVATIONS:
            raise NotImplementedError(
                f"its activation is {kind}; {', '.join(ACTIVATIONS)} are read"
            )
        given_parameters = [float(number) for number in attributes.get("activation_params", ())]
        for key in ("activation_alpha", "activation_beta"):
            given_parameters += [float(attributes[key])] if key in attributes else []
        return ACTIVATIONS[kind](y, given_parameters)

    return _convert


def _clipped(y: relax.Expr, bounds: list[float]) -> relax.Expr:
    low, high = bounds
    return relax.op.clip(y, relax.prim_value(low), relax.prim_value(high))


def _leaky(y: relax.Expr, parameters: list[float]) -> relax.Expr:
    return relax.op.nn.leakyrelu(y, *(parameters or [0.01]))


def _standard(name: str, *parameters: str) -> Activation:
    """Return a standard operator; ``parameters`` are its attributes in their order."""

    def _activate(y: relax.Expr, given: list[float]) -> relax.Expr:
        operator = getattr(onnx_frontend, name)
        return operator._impl_v1(None, [y], dict(zip(parameters, given, strict=False)), [{}, {}])

    return _activate


ACTIVATIONS: dict[str, Activation] = {
    "": lambda y, _: y,
    "Clip": _clipped,
    "Elu": _standard("Elu", "alpha"),
    "HardSigmoid": _standard("HardSigmoid", "alpha", "beta"),
    "LeakyRelu": _leaky,
    "Relu": lambda y, _: relax.op.nn.relu(y),
    "Selu": _standard("Selu", "alpha", "gamma"),
    "Sigmoid": lambda y, _: relax.op.sigmoid(y),
    "Softplus": _standard("Softplus"),
    "Softsign": _standard("Softsign"),
    "Tanh": lambda y, _: relax.op.tanh(y),
}
"""Name in an attribute -> what it does to a sum, by its parameters."""


def _skip_norm(centred: bool) -> Converter:
    """Normalize the sum of two tensors and a bias over the last axis.

    Mean, 1 / deviation and the sum are results where the node names them.
    """

    def _convert(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
        x, skip, gamma, *rest = inputs
        beta, bias = padded(rest, 2) if centred else (None, *padded(rest, 1))
        total = _sum(bb, x, skip, bias)
        y = _normalized(total, gamma, beta, attributes, centred=centred)
        if attributes["tvm_custom"]["num_outputs"] == 1:
            return y
        return relax.Tuple([bb.emit(y), *_statistics(bb, total, attributes, centred), total])

    return _convert


def _statistics(
    bb: relax.BlockBuilder, x: relax.Expr, attributes: Attributes, centred: bool
) -> list[relax.Expr]:
    """Return mean and 1 / deviation of the last axis."""
    mean = bb.emit(relax.op.mean(x, [-1], keepdims=True))
    apart = bb.emit(relax.op.subtract(x, mean)) if centred else x
    squares = bb.emit(relax.op.mean(bb.emit(relax.op.square(apart)), [-1], keepdims=True))
    epsilon = relax.const(float(attributes.get("epsilon", EPSILON)), dtype(x))
    return [mean, bb.emit(relax.op.rsqrt(bb.emit(relax.op.add(squares, epsilon))))]


def _normalized(
    x: relax.Expr, gamma: Any, beta: Any, attributes: Attributes, *, centred: bool
) -> relax.Expr:
    epsilon = float(attributes.get("epsilon", EPSILON))
    if not centred:
        return relax.op.nn.rms_norm(x, gamma, [-1], epsilon)
    if beta is None:
        beta = relax.const(np.zeros(shape(x)[-1:], dtype(x)))
    return relax.op.nn.layer_norm(x, gamma, beta, [-1], epsilon)


def embedding_norm(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Normalize the sum of the embeddings of words, positions and segments.

    The second result counts what the mask leaves of each sentence, the third is the sum.
    """
    ids, segments, words, positions, segment_table, gamma, beta, mask, places = padded(inputs, 9)
    length = shape(ids)[-1]
    if places is None:
        places = relax.const(np.arange(length)[None], "int64")
    terms = [bb.emit(relax.op.take(words, ids, 0)), bb.emit(relax.op.take(positions, places, 0))]
    if segments is not None and segment_table is not None:
        terms.append(bb.emit(relax.op.take(segment_table, segments, 0)))
    total = _sum(bb, *terms)
    given = {"epsilon": EPSILON_OF_EMBEDDINGS} | attributes
    y = bb.emit(_normalized(total, gamma, beta, given, centred=True))
    if mask is None:
        count = relax.const(np.zeros(shape(ids)[:1], "int32"))
    else:
        count = bb.emit(relax.op.sum(bb.emit(relax.op.astype(mask, "int32")), [1]))
    return relax.Tuple([y, count, total])


def _dequantized(w: Any, scale: Any, zero: Any) -> relax.Expr:
    """Return a constant matrix of integers as the reals they stand for, by column where needed."""
    arrays = [None if value is None else constant(value) for value in (w, scale, zero)]
    if arrays[0] is None or arrays[1] is None or (zero is not None and arrays[2] is None):
        raise NotImplementedError("its matrix, scale or zero point is computed, not constant")
    offset = np.zeros(1) if arrays[2] is None else arrays[2].astype(np.float64)
    reals = (arrays[0].astype(np.float64) - offset) * arrays[1].astype(np.float64)
    return relax.const(reals.astype(np.float32))


def _dynamic_matmul(bb: relax.BlockBuilder, inputs: list[Any], _: Attributes) -> relax.Expr:
    """Multiply by integers; the ranges of every run that it finds for ``a`` are left out."""
    a, b, scale, zero, bias = padded(inputs, 5)
    return _sum(bb, bb.emit(relax.op.matmul(a, _dequantized(b, scale, zero))), bias)


def _dynamic_lstm(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Read an LSTM with weights of integers; ranges that it finds for ``x`` are left out.

    Weights are (directions, inputs, gates), their scales one a direction or one a gate's row.
    """
    operands, (s_w, z_w, s_r, z_r) = inputs[:8], padded(inputs[8:], 4)
    x, w, r, *rest = operands
    weights = [_of_gates(w, s_w, z_w), _of_gates(r, s_r, z_r)]
    return CONVERTERS["LSTM"](bb, [x, *weights, *rest], attributes)


def _of_gates(w: Any, scale: Any, zero: Any) -> relax.Expr:
    """Return weights of integers as an LSTM has them: reals, (directions, gates, inputs)."""
    q, s, z = (None if value is None else constant(value) for value in (w, scale, zero))
    if q is None or s is None or (zero is not None and z is None):
        raise NotImplementedError("its weights, their scale or zero point are computed")
    along = (len(q), 1, -1)
    offset = np.zeros((*along[:2], 1)) if z is None else z.astype(np.float64).reshape(along)
    reals = (q.astype(np.float64) - offset) * s.astype(np.float64).reshape(along)
    return relax.const(np.ascontiguousarray(reals.transpose(0, 2, 1), np.float32))


def _integers_to_float(bb: relax.BlockBuilder, inputs: list[Any], _: Attributes) -> relax.Expr:
    """As above, behind a DynamicQuantizeLinear, which has been left out."""
    a, b, scale_a, scale_b, zero_a, zero_b, bias = padded(inputs, 7)
    if dtype(a) != "float32":
        a = bb.emit(relax.op.astype(a, "float32"))
        if zero_a is not None:
            a = bb.emit(relax.op.subtract(a, bb.emit(relax.op.astype(zero_a, "float32"))))
    product = bb.emit(relax.op.matmul(a, _dequantized(b, scale_b, zero_b)))
    return _sum(bb, bb.emit(relax.op.multiply(product, scale_a)), bias)


FUSED: dict[str, Converter] = {
    "BiasAdd": lambda bb, inputs, _: _sum(bb, *inputs),
    "BiasGelu": _gelu,
    "BiasSplitGelu": _split_gelu,
    "DynamicQuantizeLSTM": _dynamic_lstm,
    "DynamicQuantizeMatMul": _dynamic_matmul,
    "EmbedLayerNormalization": embedding_norm,
    "FastGelu": _fast_gelu,
    "FusedConv": _activated("Conv", 3),
    "FusedGemm": _activated("Gemm", 3),
    "FusedMatMul": _matmul,
    "Gelu": _gelu,
    "GemmFastGelu": _gemm_fast_gelu,
    "MatMulIntegerToFloat": _integers_to_float,
    "QuickGelu": _quick_gelu,
    "SimplifiedLayerNormalization": rms_norm,
    "SkipLayerNormalization": _skip_norm(centred=True),
    "SkipSimplifiedLayerNormalization": _skip_norm(centred=False),
    "TransposeMatMul": _matmul,
}
"""Operators of the domain com.microsoft, and of the standard one where ONNX Runtime wrote them."""
