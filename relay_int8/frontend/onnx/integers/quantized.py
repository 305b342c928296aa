"""ONNX operators on integers, as the real arithmetic they stand for between Q/DQ pairs.

    Before:  QLinearConv(x_q, s_x, z_x, w_q, s_w, z_w, s_y, z_y, b_q)
    After:   quantize(conv(dequantize(x_q), dequantize(w_q)) + dequantize(b_q))

So a model of ONNX Runtime's QOperator format becomes the QDQ model that its tool could have
written instead. ConvInteger and MatMulInteger give int32 and have no scale: their sums are float32
here, exact to 2**24, and stay in float.

DynamicQuantizeLinear finds a range for every run. It is left out: such a model is the float one
whose weights it holds, and gets ranges by calibration as any other.

    Before:  x_q, s, z = DynamicQuantizeLinear(x)
             y = Cast(ConvInteger(x_q, w_q, z, z_w)) * (s * s_w)
    After:   y = conv(x, w_q - z_w) * (1 * s_w)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from relay_int8.frontend.onnx.contrib.channels_last import channels_last
from relay_int8.frontend.onnx.integers.weight_only import repeated
from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.frontend.onnx.operators.converters import CONVERTERS
from relay_int8.frontend.onnx.operators.operands import known_array
from relay_int8.graph.dataflow import constant, dtype, operator, shape

Attributes = dict[str, Any]
MOVES_OF_INTEGERS = ("nn.max_pool2d", "permute_dims", "reshape", "strided_slice")
OPSET_OF_PAIRS = 13  # first opset whose Q and DQ have an axis; com.microsoft's have it in any
OPSET_OF_ONE_AXIS = 13  # first opset whose Softmax normalizes one axis


class Pairs:
    """Emit Q/DQ pairs; a missing zero point is 0."""

    def __init__(self, bb: relax.BlockBuilder) -> None:
        self.bb = bb

    def real(self, q: Any, scale: Any, zero: Any = None, axis: int = 0) -> relax.Expr:
        """Return what integers stand for."""
        s, z = _scale(scale), _zero(zero, dtype(q))
        return self.bb.emit(relax.op.dequantize(q, s, z, axis))

    def integers(self, x: relax.Expr, scale: Any, zero: Any) -> relax.Expr:
        """Return the integers that stand for ``x``; their type is the zero point's."""
        x = self.bb.emit(x) if isinstance(x, relax.Call) else x
        z = _zero(zero, "uint8")
        return relax.op.quantize(x, _scale(scale), z, 0, dtype(z))


def _scale(value: Any) -> relax.Expr:
    array = known_array(value, "its scale is").astype(np.float32)
    return relax.const(array.reshape(()) if array.size == 1 else array.reshape(-1))


def _zero(value: Any, kind: str) -> relax.Expr:
    array = np.zeros((), kind) if value is None else known_array(value, "its zero point is")
    return relax.const(array.reshape(()) if array.size == 1 else array.reshape(-1))


def _bias(pairs: Pairs, bias: Any, s_x: Any, s_w: Any, factor: float = 1.0) -> relax.Expr:
    """Return an int32 bias in reals: its scale is the product of the operands' scales."""
    scale = (
        known_array(s_x, "its scale is").reshape(-1)
        * known_array(s_w, "its scale is").reshape(-1)
        * np.float32(factor)
    )
    count = known_array(bias, "its bias is").size
    scales = relax.const(np.broadcast_to(scale, (count,)).astype(np.float32))
    zeros = relax.const(np.zeros(count, np.int32))
    return pairs.bb.emit(relax.op.dequantize(bias, scales, zeros, -1))


def _padded(inputs: Sequence[Any], count: int) -> list[Any]:
    return [*inputs, *[None] * (count - len(inputs))]


def _qlinear_conv(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    x, s_x, z_x, w, s_w, z_w, s_y, z_y, bias = _padded(inputs, 9)
    pairs = Pairs(bb)
    operands = [pairs.real(x, s_x, z_x), pairs.real(w, s_w, z_w)]
    if bias is not None:
        operands.append(_bias(pairs, bias, s_x, s_w))
    return pairs.integers(CONVERTERS["Conv"](bb, operands, attributes), s_y, z_y)


def _qlinear_matmul(bb: relax.BlockBuilder, inputs: list[Any], _: Attributes) -> relax.Expr:
    a, s_a, z_a, b, s_b, z_b, s_y, z_y = inputs
    pairs = Pairs(bb)
    reals = pairs.real(a, s_a, z_a), pairs.real(b, s_b, z_b, axis=-1)
    return pairs.integers(relax.op.matmul(*reals), s_y, z_y)


def _qgemm(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    a, s_a, z_a, b, s_b, z_b, c, s_y, z_y = _padded(inputs, 9)
    pairs = Pairs(bb)
    axis = 0 if attributes.get("transB", 0) else 1
    operands = [pairs.real(a, s_a, z_a), pairs.real(b, s_b, z_b, axis=axis)]
    if c is not None:
        operands.append(_bias(pairs, c, s_a, s_b, float(attributes.get("alpha", 1.0))))
    y = CONVERTERS["Gemm"](bb, operands, attributes)
    return y if s_y is None else pairs.integers(y, s_y, z_y)


def _binary(combine: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Converter:
    def _convert(bb: relax.BlockBuilder, inputs: list[Any], _: Attributes) -> relax.Expr:
        a, s_a, z_a, b, s_b, z_b, s_y, z_y = _padded(inputs, 8)
        pairs = Pairs(bb)
        return pairs.integers(combine(pairs.real(a, s_a, z_a), pairs.real(b, s_b, z_b)), s_y, z_y)

    return _convert


def _unary(compute: Callable[[relax.Expr, Attributes], relax.Expr]) -> Converter:
    def _convert(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
        x, s_x, z_x, s_y, z_y = _padded(inputs, 5)
        pairs = Pairs(bb)
        return pairs.integers(compute(pairs.real(x, s_x, z_x), attributes), s_y, z_y)

    return _convert


def _qlinear_concat(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes
) -> relax.Expr:
    s_y, z_y, *rest = inputs
    pairs = Pairs(bb)
    parts = [pairs.real(*rest[start : start + 3]) for start in range(0, len(rest), 3)]
    return pairs.integers(relax.op.concat(parts, axis=int(attributes["axis"])), s_y, z_y)


def _global_average(x: relax.Expr, _: Attributes) -> relax.Expr:
    return relax.op.nn.avg_pool2d(x, pool_size=list(shape(x)[2:]))


def _average_pool(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    x, s_x, z_x, s_y, z_y = _padded(inputs, 5)
    pairs = Pairs(bb)
    y = CONVERTERS["AveragePool"](bb, [pairs.real(x, s_x, z_x)], attributes)
    return pairs.integers(y, s_y, z_y)


def _where(bb: relax.BlockBuilder, inputs: list[Any], _: Attributes) -> relax.Expr:
    condition, a, s_a, z_a, b, s_b, z_b, s_y, z_y = inputs
    pairs = Pairs(bb)
    y = relax.op.where(condition, pairs.real(a, s_a, z_a), pairs.real(b, s_b, z_b))
    return pairs.integers(y, s_y, z_y)


def _softmax(x: relax.Expr, attributes: Attributes) -> relax.Expr:
    """Softmax along ``axis``; that of opsets before 13 over all axes from there on."""
    axis = int(attributes.get("axis", -1))
    if attributes.get("opset", OPSET_OF_ONE_AXIS) >= OPSET_OF_ONE_AXIS:
        return relax.op.nn.softmax(x, axis)
    extents = shape(x)
    rows = relax.op.reshape(x, (int(np.prod(extents[:axis])), int(np.prod(extents[axis:]))))
    return relax.op.reshape(relax.op.nn.softmax(rows, 1), extents)


def _reduced_mean(x: relax.Expr, attributes: Attributes) -> relax.Expr:
    axes = attributes.get("axes")
    keepdims = bool(attributes.get("keepdims", 1))
    return relax.op.mean(x, None if axes is None else [int(axis) for axis in axes], keepdims)


def _leaky(x: relax.Expr, attributes: Attributes) -> relax.Expr:
    return relax.op.nn.leakyrelu(x, float(attributes.get("alpha", 0.01)))


def _dynamic(_: relax.BlockBuilder, inputs: list[Any], __: Attributes) -> relax.Expr:
    """Return the reals themselves, with a scale of 1 and a zero point of 0."""
    one, zero = relax.const(np.float32(1)), relax.const(np.uint8(0))
    return relax.Tuple([inputs[0], one, zero])


def _centred(w: relax.Expr, zero: Any) -> relax.Expr:
    """Return weights less their zero point, float32; that of a matrix may be one a column."""
    if dtype(w) == "float32":  # of DynamicQuantizeLinear too
        return w
    array = known_array(w, "its weight is").astype(np.float32)
    z = np.zeros(1) if zero is None else known_array(zero, "its zero point of weights is")
    along = 1 if array.ndim == 2 else 0
    dims = [z.size if axis == along else 1 for axis in range(array.ndim)]
    return relax.const(array - z.reshape(dims).astype(np.float32))


def _sums(convert: Callable[..., relax.Expr]) -> Converter:
    def _converted(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
        x, w, z_x, z_w = _padded(inputs, 4)
        if dtype(x) == "float32":  # of DynamicQuantizeLinear
            return convert(bb, [x, _centred(w, z_w)], attributes)
        pairs, one = Pairs(bb), relax.const(np.float32(1))
        sums = convert(bb, [pairs.real(x, one, z_x), pairs.real(w, one, z_w)], attributes)
        return relax.op.astype(bb.emit(sums), "int32")

    return _converted


def _by_constants(name: str) -> Converter:
    """Return TVM's converter of Q or DQ; a constant tensor needs constant parameters."""

    def _convert(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
        if name == "DequantizeLinear" and dtype(inputs[0]) == "float32":
            return inputs[0]  # of DynamicQuantizeLinear: the reals, whose scale is 1
        computed = [p for p in inputs[1:] if p is not None and constant(p) is None]
        if constant(inputs[0]) is not None and computed:
            raise NotImplementedError(
                "its tensor is constant, its scale or zero point is not: write them as constants"
            )
        if name == "DequantizeLinear" and attributes.get("block_size", 0):
            return _of_blocks(inputs, attributes)
        opset = max(attributes["tvm_custom"]["opset"], OPSET_OF_PAIRS)
        convert = getattr(onnx_frontend, name).get_converter(opset)
        return convert(bb, onnx_frontend.onnx_input(inputs), attributes, [{}, {}])

    return _convert


def _of_blocks(inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Return a constant with a scale for each block along an axis as the reals it stands for."""
    q, s, *rest = (known_array(value, "its tensor or scale is") for value in inputs if value)
    axis, block = int(attributes.get("axis", 1)), int(attributes["block_size"])
    s, *zeros = (repeated(a, axis % q.ndim, block, q.shape[axis]) for a in (s, *rest))
    steps = q.astype(np.float64) - sum(zero.astype(np.float64) for zero in zeros)
    return relax.const((steps * s).astype(np.float32))


def _resize(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Resize integers as the reals they stand for; interpolation keeps scale and zero point."""
    x = inputs[0]
    if dtype(x) not in ("int8", "uint8"):
        return CONVERTERS["Resize"](bb, inputs, attributes)
    scale, zero = _pair_of(bb, x)
    pairs = Pairs(bb)
    resized = CONVERTERS["Resize"](bb, [pairs.real(x, scale, zero), *inputs[1:]], attributes)
    return pairs.integers(resized, scale, zero)


def _clip(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Clip reals before they are quantized, in place of their integers (Brevitas's QCDQ).

    Integers of fewer than 8 bits are written so; a layer that ends in a clip is one kernel.
    """
    q, low, high = _padded(inputs, 3)
    value = bb.lookup_binding(q) if isinstance(q, relax.Var) else None
    bounds = [None if bound is None else constant(bound) for bound in (low, high)]
    if not isinstance(value, relax.Call) or operator(value) != "quantize":
        return CONVERTERS["Clip"](bb, inputs, attributes)
    scale, zero = (constant(parameter) for parameter in value.args[1:3])
    if scale is None or zero is None or scale.size > 1 or any(bound is None for bound in bounds):
        return CONVERTERS["Clip"](bb, inputs, attributes)
    reals = [
        relax.prim_value((float(bound.item()) - float(zero.item())) * float(scale.item()))
        for bound in bounds
        if bound is not None
    ]
    clipped = bb.emit(relax.op.clip(value.args[0], *reals))
    return relax.op.quantize(clipped, *value.args[1:3], 0, dtype(q))


def _pair_of(bb: relax.BlockBuilder, q: relax.Expr) -> tuple[relax.Expr, relax.Expr]:
    """Return scale and zero point of integers, 1 and 0 where the model does not say."""
    value = bb.lookup_binding(q) if isinstance(q, relax.Var) else None
    while isinstance(value, relax.Call) and operator(value) in MOVES_OF_INTEGERS:
        value = bb.lookup_binding(value.args[0]) if isinstance(value.args[0], relax.Var) else None
    if isinstance(value, relax.Call) and operator(value) == "quantize":
        return value.args[1], value.args[2]
    return relax.const(np.float32(1)), relax.const(np.zeros((), dtype(q)))


QUANTIZED: dict[str, Converter] = {
    "Clip": _clip,
    "ConvInteger": _sums(CONVERTERS["Conv"]),
    "DequantizeLinear": _by_constants("DequantizeLinear"),
    "DynamicQuantizeLinear": _dynamic,
    "MatMulInteger": _sums(lambda _bb, inputs, _attributes: relax.op.matmul(*inputs)),
    "QLinearConv": channels_last(_qlinear_conv),
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _by_constants("QuantizeLinear"),
    "Resize": _resize,
}
"""Standard operators."""

MICROSOFT: dict[str, Converter] = {
    "QGemm": _qgemm,
    "QLinearAdd": _binary(relax.op.add),
    "QLinearAveragePool": channels_last(_average_pool),
    "QLinearConcat": _qlinear_concat,
    "QLinearGlobalAveragePool": channels_last(_unary(_global_average)),
    "QLinearLeakyRelu": _unary(_leaky),
    "QLinearMul": _binary(relax.op.multiply),
    "QLinearReduceMean": _unary(_reduced_mean),
    "QLinearSigmoid": _unary(lambda x, _: relax.op.sigmoid(x)),
    "QLinearSoftmax": _unary(_softmax),
    "QLinearWhere": _where,
}
"""Operators of the domain com.microsoft."""
