"""MXNet operators that compute element by element, each composed of ones that Relax has."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_int8.frontend.mxnet.step import Converter, MxnetStep

Unary = Callable[[relax.Expr], relax.Expr]
_UNARY: dict[str, Unary] = {
    "arccos": relax.op.acos,
    "arccosh": relax.op.acosh,
    "arcsin": relax.op.asin,
    "arcsinh": relax.op.asinh,
    "arctan": relax.op.atan,
    "arctanh": relax.op.atanh,
    "cosh": relax.op.cosh,
    "fix": relax.op.trunc,
    "rint": relax.op.round,
    "sinh": relax.op.sinh,
    "tan": relax.op.tan,
    "trunc": relax.op.trunc,
}
_FACTORS = {"degrees": 180 / math.pi, "radians": math.pi / 180}
_BASES = {"log10": 10, "log2": 2}


def _unary(op: Unary) -> Converter:
    return lambda step: op(step.x)


def _scaled(factor: float) -> Converter:
    return lambda step: relax.op.multiply(step.x, step.number(factor))


def _logarithm(base: int) -> Converter:
    def _convert(step: MxnetStep) -> relax.Expr:
        natural = step.emit("log", relax.op.log(step.x))
        return relax.op.multiply(natural, step.number(1 / math.log(base)))

    return _convert


def _log_of_more(step: MxnetStep) -> relax.Expr:
    """``log(1 + x)``."""
    return relax.op.log(step.emit("more", relax.op.add(step.x, step.number(1.0))))


def _exp_less(step: MxnetStep) -> relax.Expr:
    """``exp(x) - 1``."""
    return relax.op.subtract(step.emit("exp", relax.op.exp(step.x)), step.number(1.0))


def _rounded(step: MxnetStep) -> relax.Expr:
    """Round halves away from zero."""
    size = step.emit("size", relax.op.abs(step.x))
    raised = step.emit("raised", relax.op.add(size, step.number(0.5)))
    whole = step.emit("whole", relax.op.floor(raised))
    return relax.op.multiply(whole, step.emit("sign", relax.op.sign(step.x)))


def _cube_root(step: MxnetStep) -> relax.Expr:
    size = step.emit("size", relax.op.abs(step.x))
    root = step.emit("root", relax.op.power(size, step.number(1 / 3)))
    return relax.op.multiply(root, step.emit("sign", relax.op.sign(step.x)))


def _hypotenuse(step: MxnetStep) -> relax.Expr:
    squares = [step.emit("square", relax.op.square(x)) for x in step.operands("lhs", "rhs")]
    return relax.op.sqrt(step.emit("sum", relax.op.add(*squares)))


def _smooth(step: MxnetStep) -> relax.Expr:
    """Return half of squares near zero, sizes less a constant elsewhere."""
    square = step.attributes.real("scalar", 1.0) ** 2
    size = step.emit("size", relax.op.abs(step.x))
    squares = step.emit("squares", relax.op.square(step.x))
    near = step.emit("near", relax.op.multiply(squares, step.number(square / 2)))
    far = step.emit("far", relax.op.subtract(size, step.number(0.5 / square)))
    is_near = step.emit("is_near", relax.op.less(size, step.number(1 / square)))
    return relax.op.where(is_near, near, far)


def _is(op: Callable[[relax.Expr], relax.Expr]) -> Converter:
    """Return as a number whether elements are of a kind."""
    return lambda step: relax.op.astype(step.emit("is", op(step.x)), "float32")


def _each(step: MxnetStep) -> list[relax.Expr]:
    """Return operands as they are: all are float32 here."""
    return list(step.inputs)


def _identity_matrix(step: MxnetStep) -> relax.Expr:
    attrs = step.attributes
    rows = attrs.integer("N", least=1)
    columns = attrs.integer("M", 0, least=0) or rows
    return relax.const(np.eye(rows, columns, attrs.integer("k", 0), dtype="float32"))


def _spaced(step: MxnetStep) -> relax.Expr:
    """Return numbers of equal distances from start to stop."""
    attrs = step.attributes
    start, stop = attrs.real("start"), attrs.real("stop")
    count, ends = attrs.integer("num", 50, least=1), attrs.flag("endpoint", True)
    return relax.const(np.linspace(start, stop, count, endpoint=ends).astype("float32"))


FUNCTIONS: dict[str, Converter] = {
    **{name: _unary(op) for name, op in _UNARY.items()},
    **{name: _scaled(factor) for name, factor in _FACTORS.items()},
    **{name: _logarithm(base) for name, base in _BASES.items()},
    **dict.fromkeys(("_hypot", "broadcast_hypot"), _hypotenuse),
    "_contrib_isnan": _is(relax.op.isnan),
    "_contrib_isinf": _is(relax.op.isinf),
    "_eye": _identity_matrix,
    "_linspace": _spaced,
    "amp_multicast": _each,
    "cbrt": _cube_root,
    "expm1": _exp_less,
    "log1p": _log_of_more,
    "round": _rounded,
    "smooth_l1": _smooth,
}
