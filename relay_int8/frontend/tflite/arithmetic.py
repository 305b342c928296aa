"""TFLite operators that compute element by element, along an axis, or between types."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_int8.frontend.tflite.step import FUSED, Converter, TfliteStep, clip
from relay_int8.frontend.tflite.tensors import Image, Result, axis_of, dequantize
from relay_int8.graph.dataflow import dtype, shape

Binary = Callable[[relax.Expr, relax.Expr], relax.Expr]
Unary = Callable[[relax.Expr], relax.Expr]


def _binary(combine: Binary, *, fused: bool = True) -> Converter:
    def _convert(step: TfliteStep) -> Result:
        (a, b), wrap = step.together(0, 1)
        y = combine(a, b)
        return wrap(step.activated(y) if fused else y)

    return _convert


def _unary(compute: Unary) -> Converter:
    def _convert(step: TfliteStep) -> Result:
        (x,), wrap = step.together(0)
        return wrap(compute(x))

    return _convert


def _add_all(step: TfliteStep) -> Result:
    (total, *others), wrap = step.together(*range(len(step.inputs)))
    for other in others:
        total = step.emit("sum", relax.op.add(total, other))
    return wrap(total)


def _squared_difference(step: TfliteStep) -> Result:
    (a, b), wrap = step.together(0, 1)
    return wrap(relax.op.square(step.emit("difference", relax.op.subtract(a, b))))


def _hard_swish(step: TfliteStep) -> Result:
    """``x * clip(x + 3, 0, 6) / 6``."""
    (x,), wrap = step.together(0)
    shifted = step.emit("shifted", relax.op.add(x, relax.const(np.float32(3))))
    clipped = step.emit("clipped", FUSED["RELU6"](shifted))
    scaled = step.emit("scaled", relax.op.multiply(x, clipped))
    return wrap(relax.op.divide(scaled, relax.const(np.float32(6))))


def _elu(step: TfliteStep) -> Result:
    """``max(x, exp(min(x, 0)) - 1)``: the exponential is above its tangent."""
    (x,), wrap = step.together(0)
    zero, one = relax.const(np.float32(0)), relax.const(np.float32(1))
    grown = step.emit("exp", relax.op.exp(step.emit("below", relax.op.minimum(x, zero))))
    return wrap(relax.op.maximum(x, step.emit("curve", relax.op.subtract(grown, one))))


def _gelu(step: TfliteStep) -> Result:
    (x,), wrap = step.together(0)
    return wrap((relax.op.nn.gelu_tanh if step.options["approximate"] else relax.op.nn.gelu)(x))


def _leaky_relu(step: TfliteStep) -> Result:
    (x,), wrap = step.together(0)
    alpha = float(step.options["alpha"])  # type: ignore[arg-type]
    if not np.isfinite(alpha):
        raise ValueError(f"its alpha is {alpha}")
    return wrap(relax.op.nn.leakyrelu(x, alpha))


def _prelu(step: TfliteStep) -> Result:
    """Multiply negative values by slopes: of channels, or of any other broadcast."""
    (x,), wrap = step.together(0)
    if len(shape(x)) == 4:
        x, wrap = step.image(0), Image
    axis, dims = 1 if wrap is Image else len(shape(x)) - 1, step.tensor(1).shape
    if step.known(1) is not None and math.prod(dims) in (1, *dims[-1:]):
        row = np.broadcast_to(step.reals(1).reshape(-1), (shape(x)[axis],))
        return wrap(relax.op.nn.prelu(x, relax.const(np.ascontiguousarray(row)), axis))
    slopes = step.image(1) if wrap is Image else step.plain(1)
    zero = relax.const(np.float32(0))
    below = step.emit("below", relax.op.minimum(x, zero))
    scaled = step.emit("scaled", relax.op.multiply(below, slopes))
    return wrap(relax.op.add(step.emit("above", relax.op.maximum(x, zero)), scaled))


def _softmax(step: TfliteStep) -> Result:
    (x,), wrap = step.together(0)
    beta = float(step.options["beta"])  # type: ignore[arg-type]
    if not np.isfinite(beta):
        raise ValueError(f"its beta is {beta}")
    if beta != 1.0:
        x = step.emit("scaled", relax.op.multiply(x, relax.const(np.float32(beta))))
    return wrap(relax.op.nn.softmax(x, step.axis(-1, len(shape(x)))))


def _log_softmax(step: TfliteStep) -> Result:
    (x,), wrap = step.together(0)
    return wrap(relax.op.nn.log_softmax(x, step.axis(-1, len(shape(x)))))


def _l2_normalization(step: TfliteStep) -> Result:
    """Divide by the root of the sum of squares along the last axis, 1e-6 at least."""
    (x,), wrap = step.together(0)
    squares = step.emit("squares", relax.op.square(x))
    axis = step.axis(-1, len(shape(x)))
    total = step.emit("total", relax.op.sum(squares, axis, keepdims=True))
    norm = step.emit("norm", relax.op.sqrt(total))
    least = step.emit("least", relax.op.maximum(norm, relax.const(np.float32(1e-6))))
    return wrap(step.activated(relax.op.divide(x, least)))


def _reduction(reduce: Callable[..., relax.Expr]) -> Converter:
    """Reduce along axes; height and width of an image in NCHW, as pooling of the whole.

    What is reduced along its channels is no image any longer, so that the rest of a norm has the
    file's order, in which the channels are the last axis.
    """

    def _convert(step: TfliteStep) -> Result:
        (x,), _ = step.together(0)
        axes = sorted({axis_of(axis, len(shape(x))) for axis in step.integers(1, "axes")})
        if len(shape(x)) == 4 and axes == [1, 2]:
            y = reduce(step.image(0), [2, 3], keepdims=True)
            if step.options["keep_dims"]:
                return Image(y)
            n, c, _, _ = shape(step.image(0))
            return relax.op.reshape(step.quantized(y), (n, c))
        if axes == [len(shape(x)) - 1] and 0 in step.held:
            step.held[0].is_image = False
        return reduce(step.plain(0), axes, keepdims=bool(step.options["keep_dims"]))

    return _convert


def _quantize(step: TfliteStep) -> Result:
    """Hand on what is quantized when it is bound."""
    (x,), wrap = step.together(0)
    return wrap(x)


def _dequantize(step: TfliteStep) -> Result:
    """Return integers as reals once more, so that the result has a name of its own."""
    held, tensor = step.held.get(0), step.tensor(0)
    if held is None or held.integers is None:
        (x,), wrap = step.together(0)
        return wrap(x if dtype(x) == "float32" else relax.op.astype(x, "float32"))
    if isinstance(held.integers, Image):
        return Image(dequantize(held.integers.value, tensor))
    return dequantize(held.integers, tensor)


def _local_response(step: TfliteStep) -> Result:
    """``x / (bias + alpha * sum of squares of the nearest channels) ** beta``."""
    (x,), wrap = step.together(0)
    radius, rank = step.integer("radius", 0), len(shape(x))
    bias, alpha, beta = (step.number(name) for name in ("bias", "alpha", "beta"))
    axis = step.axis(rank - 1, rank)
    widths = [radius if place == axis else 0 for place in range(rank) for _ in range(2)]
    squares = step.emit("squares", relax.op.square(x))
    padded = step.emit("padded", relax.op.nn.pad(squares, widths))
    total = squares
    for first in range(2 * radius + 1):
        if first != radius:
            end = first + shape(x)[axis]
            part = step.emit("part", relax.op.strided_slice(padded, [axis], [first], [end]))
            total = step.emit("sum", relax.op.add(total, part))
    scaled = step.emit("scaled", relax.op.multiply(total, relax.const(np.float32(alpha))))
    shifted = step.emit("shifted", relax.op.add(scaled, relax.const(np.float32(bias))))
    power = step.emit("power", relax.op.power(shifted, relax.const(np.float32(-beta))))
    return wrap(relax.op.multiply(x, power))


def _fake_quantized(step: TfliteStep) -> Result:
    """Round reals to the steps of a range, as training with quantization does; halves up."""
    (x,), wrap = step.together(0)
    least, most = step.number("min"), step.number("max")
    last = 2 ** min(step.integer("num_bits", 2), 16) - 1
    if not least < most or step.options["narrow_range"]:
        raise NotImplementedError(f"a range of {least} to {most}, or a narrow one")
    scale = np.float32(most - least) / np.float32(last)
    zero = np.clip(np.rint(-least / scale), 0, last)
    low, high = (float((end - zero) * scale) for end in (0, last))
    clipped = step.emit("clipped", clip(low, high)(x))
    raised = step.emit("raised", relax.op.subtract(clipped, relax.const(np.float32(low))))
    steps = step.emit("steps", relax.op.multiply(raised, relax.const(1 / scale)))
    half = step.emit("half", relax.op.add(steps, relax.const(np.float32(0.5))))
    whole = step.emit("whole", relax.op.floor(half))
    reals = step.emit("reals", relax.op.multiply(whole, relax.const(scale)))
    return wrap(relax.op.add(reals, relax.const(np.float32(low))))


def _index_of(choose: Callable[..., relax.Expr]) -> Converter:
    """Return the index of an extreme along an axis."""

    def _convert(step: TfliteStep) -> Result:
        (x,), _ = step.together(0)
        (axis,) = step.integers(1, "axis")
        rank, kind = len(shape(x)), step.outputs[0].dtype
        if kind not in ("int32", "int64"):
            raise ValueError(f"its result is of {kind}")
        y = step.emit("place", choose(x, step.axis(axis, rank), keepdims=True))
        if step.is_image:
            y = step.emit("nhwc", relax.op.permute_dims(y, [0, 2, 3, 1]))
        y = step.emit("squeezed", relax.op.squeeze(y, [axis % rank]))
        return relax.op.astype(y, kind)

    return _convert


UNARY: dict[str, Unary] = {
    **FUSED,
    "ABS": relax.op.abs,
    "CEIL": relax.op.ceil,
    "COS": relax.op.cos,
    "EXP": relax.op.exp,
    "FLOOR": relax.op.floor,
    "LOG": relax.op.log,
    "LOGISTIC": relax.op.sigmoid,
    "NEG": relax.op.negative,
    "RELU_0_TO_1": clip(0.0, 1.0),
    "ROUND": relax.op.round,
    "RSQRT": relax.op.rsqrt,
    "SIGN": relax.op.sign,
    "SIN": relax.op.sin,
    "SQRT": relax.op.sqrt,
    "SQUARE": relax.op.square,
}

ARITHMETIC: dict[str, Converter] = {
    **{kind: _unary(compute) for kind, compute in UNARY.items()},
    "ADD": _binary(relax.op.add),
    "ADD_N": _add_all,
    "ARG_MAX": _index_of(relax.op.argmax),
    "ARG_MIN": _index_of(relax.op.argmin),
    "ATAN2": _binary(relax.op.atan2, fused=False),
    "DEQUANTIZE": _dequantize,
    "DIV": _binary(relax.op.divide),
    "ELU": _elu,
    "FAKE_QUANT": _fake_quantized,
    "FLOOR_DIV": _binary(relax.op.floor_divide, fused=False),
    "FLOOR_MOD": _binary(relax.op.floor_mod, fused=False),
    "GELU": _gelu,
    "HARD_SWISH": _hard_swish,
    "L2_NORMALIZATION": _l2_normalization,
    "LEAKY_RELU": _leaky_relu,
    "LOCAL_RESPONSE_NORMALIZATION": _local_response,
    "LOG_SOFTMAX": _log_softmax,
    "MAXIMUM": _binary(relax.op.maximum, fused=False),
    "MEAN": _reduction(relax.op.mean),
    "MINIMUM": _binary(relax.op.minimum, fused=False),
    "MUL": _binary(relax.op.multiply),
    "POW": _binary(relax.op.power, fused=False),
    "PRELU": _prelu,
    "QUANTIZE": _quantize,
    "REDUCE_MAX": _reduction(relax.op.max),
    "REDUCE_MIN": _reduction(relax.op.min),
    "REDUCE_PROD": _reduction(relax.op.prod),
    "SOFTMAX": _softmax,
    "SQUARED_DIFFERENCE": _squared_difference,
    "SUB": _binary(relax.op.subtract),
    "SUM": _reduction(relax.op.sum),
}
