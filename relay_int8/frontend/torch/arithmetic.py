"""PyTorch operators that compute element by element, or between types."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.file import DTYPES
from relay_int8.frontend.torch.promotion import as_type, promoted
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import constant, dtype

Binary = Callable[[relax.Expr, relax.Expr], relax.Expr]


def binary(combine: Binary) -> Converter:
    """Combine two operands; ``alpha`` scales the second."""

    def _convert(step: TorchStep) -> Result:
        a, b = promoted(step, "self", "other")
        alpha = step.arguments.get("alpha", 1)
        if alpha != 1:
            b = step.emit("alpha", relax.op.multiply(b, as_type(step, alpha, dtype(a))))
        return combine(a, b)

    return _convert


def _reversed_subtract(step: TorchStep) -> Result:
    if step.real("alpha", 1.0) != 1.0:
        raise NotImplementedError("alpha other than 1")
    return relax.op.subtract(step.operand("other"), step.x)


def _divide(step: TorchStep) -> Result:
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
    whole, by = promoted(step, "self", "other")
    if not dtype(whole).startswith("float"):
        return _truncated(step, whole, by)
    return relax.op.trunc(step.emit("quotient", relax.op.divide(a, b)))


def _truncated(step: TorchStep, a: relax.Expr, b: relax.Expr) -> relax.Expr:
    """Return the quotient of whole numbers, rounded towards zero."""
    if dtype(a).startswith("uint"):
        return relax.op.floor_divide(a, b)
    sizes = [step.emit(name, relax.op.abs(x)) for name, x in (("dividend", a), ("divisor", b))]
    signs = [step.emit(f"sign{i}", relax.op.sign(x)) for i, x in enumerate((a, b))]
    quotient = step.emit("quotient", relax.op.floor_divide(*sizes))
    return relax.op.multiply(quotient, step.emit("sign", relax.op.multiply(*signs)))


def _floor_divide(step: TorchStep) -> Result:
    a, b = promoted(step, "self", "other")
    if dtype(a).startswith("float"):
        return relax.op.floor(step.emit("quotient", relax.op.divide(a, b)))
    return relax.op.floor_divide(a, b)


def _power(step: TorchStep) -> Result:
    base, exponent = promoted(step, "self", "exponent")
    value = constant(exponent)
    if value is not None and value.size == 1 and float(value.reshape(())) == 2.0:
        return relax.op.square(base)
    return relax.op.power(base, exponent)


def unary(compute: Callable[[relax.Expr], relax.Expr]) -> Converter:
    """Apply a function to the operand."""

    def _convert(step: TorchStep) -> Result:
        return compute(step.x)

    return _convert


def of_reals(compute: Callable[[relax.Expr], relax.Expr]) -> Converter:
    """Apply a function to the operand; integers become reals, as torch has it."""

    def _convert(step: TorchStep) -> Result:
        x = step.x
        return compute(x if dtype(x) == "float32" else as_type(step, x, "float32"))

    return _convert


def _same(step: TorchStep) -> Result:
    return step.x


def _dropout(step: TorchStep) -> Result:
    if step.flag("train", False):
        raise ValueError("it is in training mode: call model.eval() before the export")
    return step.x


def _multiply(step: TorchStep) -> Result:
    a, b = promoted(step, "self", "other")
    return (relax.op.logical_and if dtype(a) == "bool" else relax.op.multiply)(a, b)


def _after(first: Callable[[TorchStep], relax.Expr], then: Callable[..., relax.Expr]) -> Converter:
    """Compute in two steps."""

    def _convert(step: TorchStep) -> Result:
        return then(step.emit("inner", first(step)))

    return _convert


def _cast(step: TorchStep) -> Result:
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


def _outer(step: TorchStep) -> Result:
    """Multiply every element of one vector by every one of another."""
    a, b = promoted(step, "self", "vec2" if "vec2" in step.arguments else "other")
    return relax.op.multiply(step.emit("column", relax.op.expand_dims(a, 1)), b)


def _add_combined(combine: Binary) -> Converter:
    """``self + value * combine(tensor1, tensor2)``."""

    def _convert(step: TorchStep) -> Result:
        x, a, b = promoted(step, "self", "tensor1", "tensor2")
        term = step.emit("combined", combine(a, b))
        value = step.arguments.get("value", 1)
        if value != 1:
            term = step.emit("scaled", relax.op.multiply(term, as_type(step, value, dtype(term))))
        return relax.op.add(x, term)

    return _convert


def _interpolate(step: TorchStep) -> Result:
    """``self + weight * (end - self)``."""
    x, end, weight = promoted(step, "self", "end", "weight")
    way = step.emit("way", relax.op.subtract(end, x))
    return relax.op.add(x, step.emit("part", relax.op.multiply(weight, way)))


def _logarithm(base: float) -> Converter:
    return lambda step: relax.op.multiply(
        step.emit("log", relax.op.log(step.x)), step.number(1 / math.log(base))
    )


def _scaled(factor: float) -> Converter:
    return lambda step: relax.op.multiply(step.x, step.number(factor))


def _above_zero(step: TorchStep) -> Result:
    """Return 0 below zero, 1 above it, and ``values`` at it."""
    x, at_zero = promoted(step, "self", "values")
    above = as_type(step, step.emit("above", relax.op.greater(x, step.number(0))), dtype(x))
    is_zero = step.emit("is_zero", relax.op.equal(x, step.number(0)))
    return relax.op.where(is_zero, at_zero, above)


def _of_numbers(pick: Binary) -> Converter:
    """Return the greater or lesser of two numbers, and the other one for NaN."""

    def _convert(step: TorchStep) -> Result:
        a, b = promoted(step, "self", "other")
        extreme = step.emit("extreme", pick(a, b))
        if not dtype(a).startswith("float"):
            return extreme
        missing = [step.emit("missing", relax.op.isnan(x)) for x in (a, b)]
        found = step.emit("found", relax.op.where(missing[1], a, extreme))
        return relax.op.where(missing[0], b, found)

    return _convert


def log_of_sum(step: TorchStep, a: relax.Expr, b: relax.Expr) -> relax.Expr:
    """Return ``log(exp(a) + exp(b))``, the greater taken out of the sum."""
    top = step.emit("top", relax.op.maximum(a, b))
    apart = step.emit("apart", relax.op.abs(step.emit("between", relax.op.subtract(a, b))))
    small = step.emit("small", relax.op.exp(step.emit("below", relax.op.negative(apart))))
    grown = step.emit("grown", relax.op.add(small, relax.const(1.0, dtype(a))))
    return relax.op.add(top, step.emit("log", relax.op.log(grown)))


def _log_add_exp(step: TorchStep) -> Result:
    return log_of_sum(step, *promoted(step, "self", "other"))


def _sine_quotient(step: TorchStep) -> Result:
    """``sin(pi x) / (pi x)``, which is 1 at zero."""
    turned = step.emit("turned", relax.op.multiply(step.x, step.number(math.pi)))
    is_zero = step.emit("is_zero", relax.op.equal(turned, step.number(0)))
    divisor = step.emit("divisor", relax.op.where(is_zero, step.number(1.0), turned))
    quotient = relax.op.divide(step.emit("sin", relax.op.sin(turned)), divisor)
    return relax.op.where(is_zero, step.number(1.0), step.emit("quotient", quotient))


def _times_log(step: TorchStep) -> Result:
    """``self * log(other)``, which is zero where ``self`` is."""
    a, b = promoted(step, "self", "other", least="float32")
    is_zero = step.emit("is_zero", relax.op.equal(a, relax.const(0.0, dtype(a))))
    product = step.emit("product", relax.op.multiply(a, step.emit("log", relax.op.log(b))))
    return relax.op.where(is_zero, relax.const(0.0, dtype(a)), product)


def _without_nan(step: TorchStep) -> Result:
    """Put numbers in the place of NaN and of infinities."""
    if not dtype(step.x).startswith("float"):
        return step.x
    most = float(np.finfo(np.float32).max)
    names = {"nan": 0.0, "posinf": most, "neginf": -most}
    nan, above, below = (step.number(step.real(name, default)) for name, default in names.items())
    x, infinity = step.x, step.number(math.inf)
    for name, condition, value in (
        ("nan", relax.op.isnan(x), nan),
        ("posinf", relax.op.equal(x, infinity), above),
        ("neginf", relax.op.equal(x, step.number(-math.inf)), below),
    ):
        x = step.emit(name, relax.op.where(step.emit(f"is_{name}", condition), value, x))
    return x


ARITHMETIC: dict[str, Converter] = {
    "_assert_tensor_metadata": lambda step: [],
    "_to_copy": _cast,
    "abs": unary(relax.op.abs),
    "acos": of_reals(relax.op.acos),
    "acosh": of_reals(relax.op.acosh),
    "add": binary(relax.op.add),
    "addcdiv": _add_combined(relax.op.divide),
    "addcmul": _add_combined(relax.op.multiply),
    **dict.fromkeys(("__lshift__", "bitwise_left_shift"), binary(relax.op.left_shift)),
    **dict.fromkeys(("__rshift__", "bitwise_right_shift"), binary(relax.op.right_shift)),
    "alias": _same,
    "alpha_dropout": _dropout,
    "asin": of_reals(relax.op.asin),
    "asinh": of_reals(relax.op.asinh),
    "atan": of_reals(relax.op.atan),
    "atan2": binary(relax.op.atan2),
    "atanh": of_reals(relax.op.atanh),
    "ceil": unary(relax.op.ceil),
    "clone": _same,
    "contiguous": _same,
    "cos": of_reals(relax.op.cos),
    "cosh": of_reals(relax.op.cosh),
    "deg2rad": _scaled(math.pi / 180),
    "detach": _same,
    "div": _divide,
    "dropout": _dropout,
    "erf": of_reals(relax.op.erf),
    "exp": of_reals(relax.op.exp),
    "exp2": lambda step: relax.op.power(step.number(2.0), step.x),
    "expm1": lambda step: relax.op.subtract(
        step.emit("exp", relax.op.exp(step.x)), step.number(1.0)
    ),
    "feature_dropout": _dropout,
    "floor": unary(relax.op.floor),
    "floor_divide": _floor_divide,
    "fmax": _of_numbers(relax.op.maximum),
    "fmin": _of_numbers(relax.op.minimum),
    "fmod": binary(relax.op.mod),
    "frac": lambda step: relax.op.subtract(step.x, step.emit("trunc", relax.op.trunc(step.x))),
    "heaviside": _above_zero,
    "lerp": _interpolate,
    "lift_fresh": _same,
    "lift_fresh_copy": _same,
    "log": of_reals(relax.op.log),
    "log1p": _after(lambda step: relax.op.add(step.x, step.number(1.0)), relax.op.log),
    "log10": _logarithm(10),
    "log2": _logarithm(2),
    "logaddexp": _log_add_exp,
    "maximum": binary(relax.op.maximum),
    "minimum": binary(relax.op.minimum),
    "mul": _multiply,
    "nan_to_num": _without_nan,
    "neg": unary(relax.op.negative),
    "outer": _outer,
    "positive": _same,
    "pow": _power,
    "rad2deg": _scaled(180 / math.pi),
    "reciprocal": lambda step: relax.op.divide(step.number(1.0), step.x),
    "remainder": binary(relax.op.floor_mod),
    "rsqrt": of_reals(relax.op.rsqrt),
    "rsub": _reversed_subtract,
    "sign": unary(relax.op.sign),
    "sin": of_reals(relax.op.sin),
    "sinc": _sine_quotient,
    "sinh": of_reals(relax.op.sinh),
    "sqrt": of_reals(relax.op.sqrt),
    "square": unary(relax.op.square),
    "sub": binary(relax.op.subtract),
    "tan": of_reals(relax.op.tan),
    "tanh": of_reals(relax.op.tanh),
    "to": _cast,
    "trunc": unary(relax.op.trunc),
    "type_as": _cast,
    "xlogy": _times_log,
}
