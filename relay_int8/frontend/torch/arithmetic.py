"""PyTorch operators that compute element by element, along axes, or between types."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.file import DTYPES
from relay_int8.frontend.torch.promotion import as_type, promoted
from relay_int8.frontend.torch.step import Converter, Result, Step, axis_of
from relay_int8.graph.dataflow import constant, dtype, shape

Binary = Callable[[relax.Expr, relax.Expr], relax.Expr]


def _binary(combine: Binary) -> Converter:
    """Combine two operands; ``alpha`` scales the second."""

    def _convert(step: Step) -> Result:
        a, b = promoted(step, "self", "other")
        alpha = step.arguments.get("alpha", 1)
        if alpha != 1:
            b = step.emit("alpha", relax.op.multiply(b, as_type(step, alpha, dtype(a))))
        return combine(a, b)

    return _convert


def _reversed_subtract(step: Step) -> Result:
    if step.real("alpha", 1.0) != 1.0:
        raise NotImplementedError("alpha other than 1")
    return relax.op.subtract(step.operand("other"), step.x)


def _divide(step: Step) -> Result:
    """Divide; without a rounding mode integers become reals."""
    mode = step.arguments.get("rounding_mode")
    if mode == "floor":
        return _floor_divide(step)
    a, b = promoted(step, "self", "other", least="float32")
    divisor = constant(b)
    if divisor is not None and not divisor.all():
        raise NotImplementedError("division by a constant zero")
    if mode is None:
        return relax.op.divide(a, b)
    if mode != "trunc" or dtype(step.x) != dtype(a):
        raise NotImplementedError(f"division of {dtype(step.x)} that rounds ({mode})")
    return relax.op.trunc(step.emit("quotient", relax.op.divide(a, b)))


def _floor_divide(step: Step) -> Result:
    a, b = promoted(step, "self", "other")
    if dtype(a).startswith("float"):
        return relax.op.floor(step.emit("quotient", relax.op.divide(a, b)))
    return relax.op.floor_divide(a, b)


def _power(step: Step) -> Result:
    base, exponent = promoted(step, "self", "exponent")
    value = constant(exponent)
    if value is not None and value.size == 1 and float(value.reshape(())) == 2.0:
        return relax.op.square(base)
    return relax.op.power(base, exponent)


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


def _multiply(step: Step) -> Result:
    a, b = promoted(step, "self", "other")
    return (relax.op.logical_and if dtype(a) == "bool" else relax.op.multiply)(a, b)


def _clip(low: str, high: str, bounds: tuple[float, float] = (-np.inf, np.inf)) -> Converter:
    """Clip between two arguments; of a missing one counts the bound."""

    def _convert(step: Step) -> Result:
        if any(isinstance(step.arguments.get(name), relax.Expr) for name in (low, high)):
            return _between(step, low, high)
        least, most = (
            default if step.arguments.get(name) is None else step.real(name)
            for name, default in zip((low, high), bounds, strict=True)
        )
        return _clipped(step.x, least, most)

    return _convert


def _between(step: Step, low: str, high: str) -> Result:
    """Clip between tensors."""
    x = step.x
    for name, pick in ((low, relax.op.maximum), (high, relax.op.minimum)):
        if step.arguments.get(name) is not None:
            bound = as_type(step, step.operand(name), dtype(x))
            x = step.emit("clipped", pick(x, bound))
    return x


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


def _extreme(
    reduce: Callable[..., relax.Expr], pick: Binary, place: Callable[..., Any]
) -> Converter:
    """Return the extreme of all elements, or those along an axis and their places, or of two."""

    def _convert(step: Step) -> Result:
        if "other" in step.arguments:
            return _binary(pick)(step)
        if step.arguments.get("dim") is None:
            return reduce(step.x, list(range(step.rank)))
        axis, kept = step.axis("dim"), step.flag("keepdim", False)
        places = step.emit("places", place(step.x, axis, keepdims=kept))
        return [reduce(step.x, [axis], keepdims=kept), places]

    return _convert


def _variance(root: bool) -> Converter:
    """Mean square of what is apart from the mean, by the count less ``correction``."""

    def _convert(step: Step) -> Result:
        axes = [axis_of(axis, step.rank) for axis in step.integers("dim", [])]
        axes = axes or list(range(step.rank))
        count = math.prod(shape(step.x)[axis] for axis in axes)
        left = count - (step.real("correction", 1.0) if step.flag("unbiased", True) else 0.0)
        if left <= 0:
            raise ValueError(f"a variance of {count} elements")
        kept = step.flag("keepdim", False)
        found = step.emit("variance", relax.op.variance(step.x, axes, keepdims=kept))
        found = relax.op.multiply(found, step.number(count / left))
        return relax.op.sqrt(step.emit("corrected", found)) if root else found

    return _convert


def _with_mean(root: bool) -> Converter:
    def _convert(step: Step) -> Result:
        first = step.emit("deviation", _variance(root)(step))
        return [first, _reduce(relax.op.mean)(step)]

    return _convert


def _round(step: Step) -> Result:
    if step.integer("decimals", 0):
        raise NotImplementedError("rounding to decimals")
    return relax.op.round(step.x)


def _after(first: Callable[[Step], relax.Expr], then: Callable[..., relax.Expr]) -> Converter:
    """Compute in two steps."""

    def _convert(step: Step) -> Result:
        return then(step.emit("inner", first(step)))

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


def _outer(step: Step) -> Result:
    """Multiply every element of one vector by every one of another."""
    a, b = promoted(step, "self", "vec2" if "vec2" in step.arguments else "other")
    return relax.op.multiply(step.emit("column", relax.op.expand_dims(a, 1)), b)


def _vector_norm(step: Step) -> Result:
    """Square root of the sum of squares along axes, all of them where none is named."""
    if step.real("ord", 2.0) != 2.0:
        raise NotImplementedError(f"a norm of order {step.arguments['ord']}")
    axes = [axis_of(axis, step.rank) for axis in step.integers("dim", [])]
    squares = step.emit("squares", relax.op.square(step.x))
    total = relax.op.sum(squares, axes or list(range(step.rank)), step.flag("keepdim", False))
    return relax.op.sqrt(step.emit("sum", total))


def _total(step: Step) -> Result:
    """Sum along axes; integers and truth values are counted in int64."""
    return _reduce(relax.op.sum)(_counting(step))


def _difference(step: Step) -> Result:
    """Subtract every element along an axis from the next, ``n`` times; of truth values: differ."""
    axis, times = step.axis("dim", -1), step.integer("n", 1)
    parts = [step.optional_tensor("prepend"), step.x, step.optional_tensor("append")]
    given = [as_type(step, part, dtype(step.x)) for part in parts if part is not None]
    x = given[0] if len(given) == 1 else step.emit("joined", relax.op.concat(given, axis))
    if not 1 <= times < shape(x)[axis]:
        raise ValueError(f"it takes {times} differences of {shape(x)[axis]}")
    combine = relax.op.not_equal if dtype(x) == "bool" else relax.op.subtract
    for _ in range(times):
        size = shape(x)[axis]
        ends = [relax.op.strided_slice(x, [axis], [i], [size - 1 + i]) for i in (1, 0)]
        x = step.emit("difference", combine(*(step.emit("end", end) for end in ends)))
    return x


def _cumulative(step: Step) -> Result:
    counting = _counting(step)
    return relax.op.cumsum(counting.x, counting.axis("dim"))


def _counting(step: Step) -> Step:
    if dtype(step.x).startswith("float"):
        return step
    return replace(step, arguments={**step.arguments, "self": as_type(step, step.x, "int64")})


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
    "atan": _unary(relax.op.atan),
    "ceil": _unary(relax.op.ceil),
    "clamp": _clip("min", "max"),
    "clamp_max": _clip("-", "max"),
    "clamp_min": _clip("min", "-"),
    "clone": _same,
    "contiguous": _same,
    "cos": _unary(relax.op.cos),
    "cumsum": _cumulative,
    "detach": _same,
    "diff": _difference,
    "div": _divide,
    "dropout": _dropout,
    "elu": _elu,
    "erf": _unary(relax.op.erf),
    "exp": _unary(relax.op.exp),
    "expm1": lambda step: relax.op.subtract(
        step.emit("exp", relax.op.exp(step.x)), step.number(1.0)
    ),
    "feature_dropout": _dropout,
    "floor": _unary(relax.op.floor),
    "floor_divide": _floor_divide,
    "fmod": _binary(relax.op.mod),
    "gelu": _gelu,
    "hardsigmoid": _hard_sigmoid,
    "hardswish": _hard_swish,
    "hardtanh": _clip("min_val", "max_val", (-1.0, 1.0)),
    "leaky_relu": lambda step: relax.op.nn.leakyrelu(step.x, step.real("negative_slope", 0.01)),
    "lift_fresh": _same,
    "lift_fresh_copy": _same,
    "linalg_vector_norm": _vector_norm,
    "log": _unary(relax.op.log),
    "log1p": _after(lambda step: relax.op.add(step.x, step.number(1.0)), relax.op.log),
    "log2": lambda step: relax.op.multiply(
        step.emit("log", relax.op.log(step.x)), step.number(1 / math.log(2))
    ),
    "log_softmax": _along(relax.op.nn.log_softmax),
    "max": _extreme(relax.op.max, relax.op.maximum, relax.op.argmax),
    "maximum": _binary(relax.op.maximum),
    "mean": _reduce(relax.op.mean),
    "min": _extreme(relax.op.min, relax.op.minimum, relax.op.argmin),
    "minimum": _binary(relax.op.minimum),
    "mish": _mish,
    "mul": _multiply,
    "neg": _unary(relax.op.negative),
    "outer": _outer,
    "pow": _power,
    "prelu": _prelu,
    "reciprocal": lambda step: relax.op.divide(step.number(1.0), step.x),
    "prod": _reduce(relax.op.prod),
    "relu": _unary(relax.op.nn.relu),
    "remainder": _binary(relax.op.floor_mod),
    "relu6": lambda step: _clipped(step.x, 0.0, 6.0),
    "round": _round,
    "rsqrt": _unary(relax.op.rsqrt),
    "rsub": _reversed_subtract,
    "selu": _unary(relax.op.nn.selu),
    "sigmoid": _unary(relax.op.sigmoid),
    "sign": _unary(relax.op.sign),
    "silu": _unary(relax.op.nn.silu),
    "sin": _unary(relax.op.sin),
    "softmax": _along(relax.op.nn.softmax),
    "softplus": _softplus,
    "sqrt": _unary(relax.op.sqrt),
    "square": _unary(relax.op.square),
    "std": _variance(root=True),
    "std_mean": _with_mean(root=True),
    "sub": _binary(relax.op.subtract),
    "sum": _total,
    "tan": _unary(relax.op.tan),
    "tanh": _unary(relax.op.tanh),
    "to": _cast,
    "trunc": _unary(relax.op.trunc),
    "type_as": _cast,
    "var": _variance(root=False),
    "var_mean": _with_mean(root=False),
}
