"""ONNX operators that we turn into Relax ourselves.

TVM's importer makes opaque kernels of Clip and Pad, keeps Dropout, pads in front of a convolution
with ``auto_pad``, scales the input of a Gemm, stacks the operands of Max and computes with float
constants in float32; the passes after it want plain Relax operators on what the file holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from relay_int8.frontend.cropping import cropped
from relay_int8.frontend.einsum import einsum
from relay_int8.frontend.importing import SizedByValuesError
from relay_int8.frontend.onnx.operators.auto_pad import window_padding
from relay_int8.frontend.onnx.operators.blocks import col2im
from relay_int8.frontend.onnx.operators.conv_transpose import conv_transpose
from relay_int8.frontend.onnx.operators.deformable import deform_conv
from relay_int8.frontend.onnx.operators.elementwise import (
    bit_shift,
    erfc,
    is_inf,
    mod,
    power,
    shrink,
)
from relay_int8.frontend.onnx.operators.fourier import dft, stft
from relay_int8.frontend.onnx.operators.indices import INDEX_CONVERTERS
from relay_int8.frontend.onnx.operators.normalization import (
    batch_norm,
    layer_norm,
    lp_norm,
    rms_norm,
)
from relay_int8.frontend.onnx.operators.operands import known_array, known_integers
from relay_int8.frontend.onnx.operators.pool import max_unpool, pool
from relay_int8.frontend.onnx.operators.recurrent import gru, lstm, rnn
from relay_int8.frontend.onnx.operators.reductions import extreme, reduced, reduced_in_reals
from relay_int8.frontend.onnx.operators.regions import roi_align
from relay_int8.frontend.onnx.operators.resize import resize
from relay_int8.frontend.small_matrices import determinant
from relay_int8.graph.dataflow import constant, dtype, operator, shape

SORTED = ("float16", "float32", "float64", "int8", "int32", "int64", "uint8")
"""Types that TVM 0.27 sorts."""

Converter = Callable[[relax.BlockBuilder, list[Any], dict[str, Any]], relax.Expr]

MOST_COPIES = 8  # copies that a Tile is imported as, joined by a concat


def _clip(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Clip; a missing bound, or a constant one that is NaN, is no bound."""
    x, low, high = (*inputs, None, None)[:3]
    bounds = {"min": low, "max": high}
    numbers: dict[str, float | None] = {}
    for name, bound in bounds.items():
        value = attributes.get(name) if bound is None else constant(bound)
        is_number = value is not None and np.isfinite(value).all()
        numbers[name] = float(np.asarray(value, np.float32).reshape(())) if is_number else None
    if None not in numbers.values():
        return relax.op.clip(x, *map(relax.prim_value, numbers.values()))
    for name, combine in (("min", relax.op.maximum), ("max", relax.op.minimum)):
        number, bound = numbers[name], bounds[name]
        if number is not None:
            x = bb.emit(combine(x, relax.const(number, dtype(x))))
        elif bound is not None and constant(bound) is None:
            x = bb.emit(combine(x, bound))
    return x


def _pad(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Pad by constant widths; ``axes`` (opset 18) names those that are padded."""
    x, *rest = inputs
    given, value, named = (*rest, None, None, None)[:3]
    axes = None if named is None else constant(named)
    widths = known_array(given, "its widths are")
    mode = attributes.get("mode", b"constant").decode()
    modes = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    rank = len(shape(x))
    padded = range(rank) if axes is None else [int(axis) % rank for axis in axes]
    before, after = np.split(widths, 2)
    sides = np.zeros((rank, 2), "int64")
    sides[list(padded)] = np.stack([before, after], axis=1)
    x, kept = cropped(bb.emit, x, sides.reshape(-1).tolist(), mode)
    return relax.op.nn.pad(x, kept, modes[mode], _fill(bb, value))


def _fill(bb: relax.BlockBuilder, value: Any) -> float:
    """Return a constant number, which a quantizer may have put behind a DequantizeLinear."""
    if value is None:
        return 0.0
    call = bb.lookup_binding(value) if isinstance(value, relax.Var) else None
    scale, zero = 1.0, 0.0
    if call is not None and operator(call) == "dequantize":
        value, scale, zero = call.args[0], *(_number(argument) for argument in call.args[1:])
    return (_number(value) - zero) * scale


def _number(value: Any) -> float:
    array = known_array(value, "its fill value is")
    return float(array.reshape(())) if array.size else 0.0


def _conv(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Convolve in one to three dimensions, ``auto_pad`` written out as four widths."""
    x, w, *bias = inputs
    rank = len(shape(x)) - 2
    strides = attributes.get("strides", (1,) * rank)
    dilation = attributes.get("dilations", (1,) * rank)
    padding = window_padding(attributes, shape(x)[2:], shape(w)[2:], strides, dilation)
    op = (relax.op.nn.conv1d, relax.op.nn.conv2d, relax.op.nn.conv3d)[rank - 1]
    y = op(
        x,
        w,
        strides=list(strides),
        padding=list(padding),
        dilation=list(dilation),
        groups=attributes.get("group", 1),
    )
    if not bias or bias[0] is None:
        return y
    return relax.op.add(bb.emit(y), relax.op.reshape(bias[0], (1, -1, *(1,) * rank)))


def _celu(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """``max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1)``."""
    x, alpha = inputs[0], float(attributes.get("alpha", 1.0))
    zero, one, a = (relax.const(value, x.ty.dtype.dtype) for value in (0.0, 1.0, alpha))
    share = bb.emit(relax.op.divide(bb.emit(relax.op.minimum(x, zero)), a))
    growth = bb.emit(relax.op.subtract(bb.emit(relax.op.exp(share)), one))
    return relax.op.add(bb.emit(relax.op.maximum(x, zero)), bb.emit(relax.op.multiply(growth, a)))


def _above(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """``x`` where it is more than alpha, else 0."""
    x, kind = inputs[0], inputs[0].ty.dtype.dtype
    alpha, zero = (relax.const(v, kind) for v in (float(attributes.get("alpha", 1.0)), 0.0))
    return relax.op.where(bb.emit(relax.op.greater(x, alpha)), x, zero)


def _mean(bb: relax.BlockBuilder, inputs: list[Any], _: dict[str, Any]) -> relax.Expr:
    """Add the operands two by two, and divide by their number."""
    total = _pairwise(relax.op.add)(bb, inputs, {})
    count = relax.const(1 / len(inputs), inputs[0].ty.dtype.dtype)
    return relax.op.multiply(bb.emit(total) if isinstance(total, relax.Call) else total, count)


def _cum_sum(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Sum along an axis, from its end where ``reverse`` says so."""
    x, axis_array = inputs[0], known_array(inputs[1], "its axis is")
    axis = int(axis_array.reshape(()))
    turned = bool(attributes.get("reverse", 0))
    x = bb.emit(relax.op.flip(x, axis)) if turned else x
    y = relax.op.cumsum(x, axis, exclusive=bool(attributes.get("exclusive", 0)))
    return relax.op.flip(bb.emit(y), axis) if turned else y


def _dropout(_: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Hand on the input; the mask, where a node has one, is true everywhere."""
    x, ratio, training = (*inputs, None, None)[:3]
    is_training = False if training is None else constant(training)
    drops = True if ratio is None else constant(ratio)
    if is_training is None:
        raise NotImplementedError(
            "inputs of the network say whether it drops elements by chance (training_mode); give "
            'them values, as by ImportOptions(values={"deterministic": 1})'
        )
    if np.any(is_training) and (drops is None or np.any(drops)):
        raise NotImplementedError(
            "it drops elements by chance (training_mode): export the model in evaluation mode"
        )
    if attributes["tvm_custom"]["num_outputs"] == 1:
        return x
    return relax.Tuple([x, relax.const(np.ones(shape(x), "bool"))])


def _gemm(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """``alpha * a @ b + beta * c``, alpha after the product so that it can fold into constant b."""
    a, b, *c = inputs
    dtype = a.ty.dtype.dtype
    if attributes.get("transA", 0):
        a = bb.emit(relax.op.permute_dims(a, [1, 0]))
    if attributes.get("transB", 0):
        b = bb.emit(relax.op.permute_dims(b, [1, 0]))
    y = relax.op.matmul(a, b)
    alpha, beta = (float(attributes.get(name, 1.0)) for name in ("alpha", "beta"))
    if alpha != 1.0:
        y = relax.op.multiply(bb.emit(y), relax.const(alpha, dtype))
    if not c or c[0] is None:
        return y
    bias = c[0] if beta == 1.0 else relax.op.multiply(c[0], relax.const(beta, dtype))
    return relax.op.add(bb.emit(y), bias)


def _space_to_depth(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]
) -> relax.Expr:
    """Move blocks of pixels to channels, outside of the channels there are (DCR) or inside."""
    size = int(attributes["blocksize"])
    n, c, h, w = shape(inputs[0])
    mode = attributes.get("mode", b"DCR").decode()
    orders = {"DCR": [0, 3, 5, 1, 2, 4], "CRD": [0, 1, 3, 5, 2, 4]}
    if mode not in orders:
        raise NotImplementedError(f"mode is {mode}; only DCR and CRD are read")
    split = bb.emit(relax.op.reshape(inputs[0], (n, c, h // size, size, w // size, size)))
    turned = bb.emit(relax.op.permute_dims(split, orders[mode]))
    return relax.op.reshape(turned, (n, c * size * size, h // size, w // size))


def _global_max_pool(_: relax.BlockBuilder, inputs: list[Any], __: dict[str, Any]) -> relax.Expr:
    return relax.op.max(inputs[0], list(range(2, len(shape(inputs[0])))), keepdims=True)


def _pairwise(combine: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Converter:
    """Combine any number of operands two by two, from the left; constants are folded later."""

    def _convert(bb: relax.BlockBuilder, inputs: list[Any], _: dict[str, Any]) -> relax.Expr:
        total, *others = inputs
        for other in others:
            total = combine(bb.emit(total) if isinstance(total, relax.Call) else total, other)
        return total

    return _convert


def _top_k(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    kind = dtype(inputs[0])
    if kind not in SORTED:
        raise NotImplementedError(f"it sorts {kind}; only {', '.join(SORTED)} are read")
    version = 11 if len(inputs) > 1 else 1
    convert = getattr(onnx_frontend.TopK, f"_impl_v{version}")
    return convert(bb, inputs, attributes, [{}, {}])


def _tile(bb: relax.BlockBuilder, inputs: list[Any], _: dict[str, Any]) -> relax.Expr:
    """Repeat axis by axis; TVM's importer makes an opaque kernel of it."""
    x, repeats = inputs[0], known_array(inputs[1], "its repeats are")
    for axis, count in enumerate(repeats.tolist()):
        if count < 1:
            raise NotImplementedError(f"it repeats axis {axis} {count} times")
        if count > MOST_COPIES:
            x = _broadcast(bb, x, axis, int(count))
        elif count > 1:
            x = bb.emit(relax.op.concat([x] * int(count), axis))
    return x


def _broadcast(bb: relax.BlockBuilder, x: relax.Expr, axis: int, count: int) -> relax.Expr:
    """Repeat an axis as an axis more: a concat of many parts takes LLVM minutes."""
    dims = list(shape(x))
    apart = bb.emit(relax.op.reshape(x, [*dims[:axis], 1, *dims[axis:]]))
    wide = bb.emit(relax.op.broadcast_to(apart, [*dims[:axis], count, *dims[axis:]]))
    return bb.emit(relax.op.reshape(wide, [*dims[:axis], count * dims[axis], *dims[axis + 1 :]]))


def _einsum(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    equation = attributes["equation"].decode()
    return einsum(inputs, equation, lambda _, value: bb.emit(value))


def _det(bb: relax.BlockBuilder, inputs: list[Any], _: dict[str, Any]) -> relax.Expr:
    return determinant(lambda _name, value: bb.emit(value), inputs[0])


def _squeeze(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Remove axes of extent 1: those that are named, or all, also where none is named."""
    x, *rest = inputs
    named = attributes.get("axes")
    if rest and rest[0] is not None:
        named = known_integers(rest[0], "its axes are")
    return relax.op.squeeze(x, [int(axis) for axis in named] if named else None)


def _filled(_: relax.BlockBuilder, __: list[Any], ___: dict[str, Any]) -> relax.Expr:
    """Refuse a shape that is computed; ConstantOfShape of a constant is a constant."""
    raise SizedByValuesError("the shape of its result is computed, not constant")


def _compress(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Take what a constant condition says, along an axis or of all elements in a row."""
    x, condition = inputs
    chosen = np.flatnonzero(known_array(condition, "its condition is"))
    axis = attributes.get("axis")
    if axis is None:
        x, axis = bb.emit(relax.op.reshape(x, (-1,))), 0
    axis = int(axis) % len(shape(x))
    if chosen.size and chosen[-1] >= shape(x)[axis]:
        raise ValueError(f"its condition has {chosen[-1] + 1} elements for {list(shape(x))}")
    return relax.op.take(x, relax.const(chosen.astype("int64")), axis)


CONVERTERS: dict[str, Converter] = {
    **INDEX_CONVERTERS,
    "Add": _pairwise(relax.op.add),
    "AveragePool": pool("avg"),
    "BatchNormalization": batch_norm,
    "BitShift": bit_shift,
    "Celu": _celu,
    "Clip": _clip,
    "Col2Im": col2im,
    "Compress": _compress,
    "ConstantOfShape": _filled,
    "Conv": _conv,
    "ConvTranspose": conv_transpose,
    "CumSum": _cum_sum,
    "DFT": dft,
    "Det": _det,
    "DeformConv": deform_conv,
    "Div": _pairwise(relax.op.divide),
    "Dropout": _dropout,
    "Einsum": _einsum,
    "Erfc": erfc,
    "GRU": gru,
    "Gemm": _gemm,
    "GlobalMaxPool": _global_max_pool,
    "IsInf": is_inf,
    "LSTM": lstm,
    "LayerNormalization": layer_norm,
    "LpNormalization": lp_norm,
    "Max": _pairwise(relax.op.maximum),
    "MaxPool": pool("max"),
    "MaxUnpool": max_unpool,
    "Mean": _mean,
    "Min": _pairwise(relax.op.minimum),
    "Mod": mod,
    "Mul": _pairwise(relax.op.multiply),
    "Pad": _pad,
    "Pow": power,
    "RMSNormalization": rms_norm,
    "RNN": rnn,
    "ReduceL1": reduced("ReduceL1"),
    "ReduceL2": reduced_in_reals("ReduceL2"),
    "ReduceLogSum": reduced("ReduceLogSum"),
    "ReduceMax": extreme("ReduceMax"),
    "ReduceMean": reduced_in_reals("ReduceMean"),
    "ReduceMin": extreme("ReduceMin"),
    "ReduceSumSquare": reduced("ReduceSumSquare"),
    "Resize": resize,
    "RoiAlign": roi_align,
    "STFT": stft,
    "Shrink": shrink,
    "SpaceToDepth": _space_to_depth,
    "Squeeze": _squeeze,
    "Sub": _pairwise(relax.op.subtract),
    "Sum": _pairwise(relax.op.add),
    "ThresholdedRelu": _above,
    "Tile": _tile,
    "TopK": _top_k,
}
