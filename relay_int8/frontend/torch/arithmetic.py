"""PyTorch operators that compute element by element, along axes, or between types."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.file import DTYPES
from relay_int8.frontend.torch.step import Converter, Result, Step, axis_of
from relay_int8.graph.dataflow import constant, dtype, shape

Binary = Callable[[relax.Expr, relax.Expr], relax.Expr]
MOST_ZEROS = 1 << 20


def _binary(combine: Binary) -> Converter:
    """Combine two operands; ``alpha`` scales the second."""

    def _convert(step: Step) -> Result:
        a, b = step.x, step.operand("other")
        alpha = step.real("alpha", 1.0)
        if alpha != 1.0:
            b = step.emit("alpha", relax.op.multiply(b, step.number(alpha)))
        if dtype(a) != dtype(b):
            raise NotImplementedError(f"operands of {dtype(a)} and {dtype(b)}")
        return combine(a, b)

    return _convert


def _reversed_subtract(step: Step) -> Result:
    if step.real("alpha", 1.0) != 1.0:
        raise NotImplementedError("alpha other than 1")
    return relax.op.subtract(step.operand("other"), step.x)


def _divide(step: Step) -> Result:
    if step.arguments.get("rounding_mode") is not None:
        raise NotImplementedError("division that rounds")
    return _binary(relax.op.divide)(step)


def _power(step: Step) -> Result:
    exponent = step.operand("exponent")
    value = constant(exponent)
    if value is not None and value.size == 1 and float(value.reshape(())) == 2.0:
        return relax.op.square(step.x)
    return relax.op.power(step.x, exponent)


def _unary(compute: Callable[[relax.Expr], relax.Expr]) -> Converter:
    def _convert(step: Step) -> Result:
        return compute(step.x)

    return _convert


def _same(step: Step) -> Result:
    return step.x


def _dropout(step: Step) -> Result:
    if step.flag("train", False):
        raise ValueError("it is in training mode: call model.eval() before the export")
    return step.x


def _clip(low: str, high: str, bounds: tuple[float, float] = (-np.inf, np.inf)) -> Converter:
    """Clip between two arguments; of a missing one counts the bound."""

    def _convert(step: Step) -> Result:
        least, most = (
            default if step.arguments.get(name) is None else step.real(name)
            for name, default in zip((low, high), bounds, strict=True)
        )
        return _clipped(step.x, least, most)

    return _convert


def _clipped(x: relax.Expr, low: float, high: float) -> relax.Expr:
    if np.isfinite(low) and np.isfinite(high):
        return relax.op.clip(x, relax.prim_value(float(low)), relax.prim_value(float(high)))
    if np.isfinite(low):
        return relax.op.maximum(x, relax.const(low, dtype(x)))
    return relax.op.minimum(x, relax.const(high, dtype(x))) if np.isfinite(high) else x


def _hard_gate(step: Step) -> relax.Var:
    """``clip(x + 3, 0, 6)``."""
    shifted = step.emit("shifted", relax.op.add(step.x, step.number(3.0)))
    return step.emit("clipped", _clipped(shifted, 0.0, 6.0))


def _hard_sigmoid(step: Step) -> Result:
    return relax.op.divide(_hard_gate(step), step.number(6.0))


def _hard_swish(step: Step) -> Result:
    scaled = step.emit("scaled", relax.op.multiply(step.x, _hard_gate(step)))
    return relax.op.divide(scaled, step.number(6.0))


def _gelu(step: Step) -> Result:
    form = step.text("approximate", "none")
    if form not in ("none", "tanh"):
        raise ValueError(f"its approximation is {form!r}")
    return (relax.op.nn.gelu if form == "none" else relax.op.nn.gelu_tanh)(step.x)


def _elu(step: Step) -> Result:
    """``scale * (max(x, 0) + alpha * (exp(min(x, 0) * input_scale) - 1))``."""
    if step.real("scale", 1.0) != 1.0 or step.real("input_scale", 1.0) != 1.0:
        raise NotImplementedError("scales other than 1")
    zero = step.number(0.0)
    grown = step.emit("exp", relax.op.exp(step.emit("below", relax.op.minimum(step.x, zero))))
    curve = step.emit("curve", relax.op.subtract(grown, step.number(1.0)))
    scaled = step.emit("scaled", relax.op.multiply(curve, step.number(step.real("alpha", 1.0))))
    return relax.op.add(step.emit("above", relax.op.maximum(step.x, zero)), scaled)


def _prelu(step: Step) -> Result:
    slopes = step.tensor("weight")
    channels = shape(step.x)[1] if step.rank > 1 else 1
    if shape(slopes) == (1,) and channels > 1:
        slopes = step.emit("slopes", relax.op.broadcast_to(slopes, (channels,)))
    if shape(slopes) != (channels,):
        raise ValueError(f"its weight is {shape(slopes)}, not {channels}")
    return relax.op.nn.prelu(step.x, slopes, axis=1)


def _softplus(step: Step) -> Result:
    """Softplus; beyond the threshold torch returns x, to which it is equal in float32 by then."""
    if step.real("beta", 1.0) != 1.0 or step.real("threshold", 20.0) < 20.0:
        raise NotImplementedError("beta other than 1, or a threshold below 20")
    return relax.op.nn.softplus(step.x)


def _mish(step: Step) -> Result:
    grown = step.emit("softplus", relax.op.nn.softplus(step.x))
    return relax.op.multiply(step.x, step.emit("tanh", relax.op.tanh(grown)))


def _along(op: Callable[[relax.Expr, int], relax.Expr]) -> Converter:
    def _convert(step: Step) -> Result:
        return op(step.x, step.axis("dim"))

    return _convert


def _reduce(op: Callable[..., relax.Expr]) -> Converter:
    """Reduce along axes, all of them where none is named."""

    def _convert(step: Step) -> Result:
        named = step.integers("dim", [])
        axes = [axis_of(axis, step.rank) for axis in named] or list(range(step.rank))
        return op(step.x, axes, keepdims=step.flag("keepdim", False))

    return _convert


def _argmax(step: Step) -> Result:
    if step.arguments.get("dim") is None:
        raise NotImplementedError("the largest of all axes")
    return relax.op.argmax(step.x, step.axis("dim"), keepdims=step.flag("keepdim", False))


def _cast(step: Step) -> Result:
    """Change the element type; between floats nothing changes: all are float32 here."""
    number = step.arguments.get("dtype")
    other = step.optional_tensor("other")
    wanted = dtype(step.x) if number is None else DTYPES.get(number, f"type {number}")
    wanted = wanted if other is None else dtype(other)
    if wanted.startswith(("float", "bfloat")):
        wanted = "float32"
    elif wanted not in DTYPES.values():
        raise NotImplementedError(f"element {wanted}")
    return step.x if wanted == dtype(step.x) else relax.op.astype(step.x, wanted)


def _zeros(step: Step) -> Result:
    """Return zeros, float32 where no other type is given; torchvision's stand for no bias."""
    sizes, number = step.integers("size"), step.arguments.get("dtype")
    if any(size < 0 for size in sizes) or math.prod(sizes) > MOST_ZEROS:
        raise NotImplementedError(f"zeros of {sizes}; at most {MOST_ZEROS}")
    kind = "float32" if number is None else DTYPES.get(number, f"type {number}")
    if kind.startswith(("float", "bfloat")):
        kind = "float32"
    elif kind not in DTYPES.values():
        raise NotImplementedError(f"element {kind}")
    return relax.const(np.zeros(sizes, kind))


ARITHMETIC: dict[str, Converter] = {
    "_assert_tensor_metadata": lambda step: [],
    "_log_softmax": _along(relax.op.nn.log_softmax),
    "_softmax": _along(relax.op.nn.softmax),
    "_to_copy": _cast,
    "abs": _unary(relax.op.abs),
    "add": _binary(relax.op.add),
    "alias": _same,
    "alpha_dropout": _dropout,
    "amax": _reduce(relax.op.max),
    "amin": _reduce(relax.op.min),
    "argmax": _argmax,
    "ceil": _unary(relax.op.ceil),
    "clamp": _clip("min", "max"),
    "clamp_max": _clip("-", "max"),
    "clamp_min": _clip("min", "-"),
    "clone": _same,
    "contiguous": _same,
    "cos": _unary(relax.op.cos),
    "detach": _same,
    "div": _divide,
    "dropout": _dropout,
    "elu": _elu,
    "erf": _unary(relax.op.erf),
    "exp": _unary(relax.op.exp),
    "feature_dropout": _dropout,
    "floor": _unary(relax.op.floor),
    "gelu": _gelu,
    "hardsigmoid": _hard_sigmoid,
    "hardswish": _hard_swish,
    "hardtanh": _clip("min_val", "max_val", (-1.0, 1.0)),
    "leaky_relu": lambda step: relax.op.nn.leakyrelu(step.x, step.real("negative_slope", 0.01)),
    "lift_fresh_copy": _same,
    "log": _unary(relax.op.log),
    "log_softmax": _along(relax.op.nn.log_softmax),
    "maximum": _binary(relax.op.maximum),
    "mean": _reduce(relax.op.mean),
    "minimum": _binary(relax.op.minimum),
    "mish": _mish,
    "mul": _binary(relax.op.multiply),
    "neg": _unary(relax.op.negative),
    "pow": _power,
    "prelu": _prelu,
    "reciprocal": lambda step: relax.op.divide(step.number(1.0), step.x),
    "relu": _unary(relax.op.nn.relu),
    "relu6": lambda step: _clipped(step.x, 0.0, 6.0),
    "round": _unary(relax.op.round),
    "rsqrt": _unary(relax.op.rsqrt),
    "rsub": _reversed_subtract,
    "selu": _unary(relax.op.nn.selu),
    "sigmoid": _unary(relax.op.sigmoid),
    "silu": _unary(relax.op.nn.silu),
    "sin": _unary(relax.op.sin),
    "softmax": _along(relax.op.nn.softmax),
    "softplus": _softplus,
    "sqrt": _unary(relax.op.sqrt),
    "square": _unary(relax.op.square),
    "sub": _binary(relax.op.subtract),
    "sum": _reduce(relax.op.sum),
    "tanh": _unary(relax.op.tanh),
    "to": _cast,
    "type_as": _cast,
    "zeros": _zeros,
}
