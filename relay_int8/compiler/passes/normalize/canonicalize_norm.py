"""Write norms that a file spells out, and the constants behind them, as one operator.

    Before:  d = x - mean(x);  n = d / sqrt(mean(d * d) + epsilon);  y = n * gamma + beta
    After:   y = layer_norm(x, gamma, beta)

Without the mean it is an RMSNorm, an L2 norm too: the root of a sum is a factor of gamma. Over
other axes than the last (channels of images) it is a norm between two transpositions. With
gamma and beta of channels, over all axes behind these, it is an InstanceNorm; that between two
reshapes which cut the channels a GroupNorm. Factors may come in any order, roots as powers. As
TensorFlow writes it: ``x * g + (beta - mean(x) * g)`` with g the factor, or with ``-mean(x)``.

Place:  after FoldConstants, before CanonicalizeSequence and FoldAffine, which take means and
        constants for themselves.
Exact:  within float rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, dtype, operator, shape
from relay_int8.graph.declined import Declined
from relay_int8.graph.norm_calls import NORMS, NormCall, has_flags, norm_call_of
from relay_int8.graph.rewriting import Scope, rewrite_main
from relay_int8.graph.standard_deviation import (
    Deviation,
    deviation_of,
    inverse_of,
    is_same,
    mean_of,
)

Scaled = tuple[relax.Expr, np.ndarray]
ONE = np.ones(())


@tvm.transform.module_pass(opt_level=0, name="CanonicalizeNorm")
class CanonicalizeNorm:
    """Write norms that a file spells out, and the constants behind them, as one operator."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with norms; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _as_norm)


def _as_norm(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    rule = _RULES.get(operator(value))
    if rule is None or dtype(value) != "float32":
        return None
    matched = rule(scope, value)
    if isinstance(matched, _Turned):
        norm = scope.emit("norm", matched.norm.call())
        return relax.op.permute_dims(norm, list(matched.order))
    return matched.call() if isinstance(matched, NormCall) else matched


@dataclass(frozen=True)
class _Turned:
    """A norm of transposed ``x``, and the order of axes that undoes this."""

    norm: NormCall
    order: tuple[int, ...]

    def with_constant(self, op: str, array: np.ndarray) -> _Turned | None:
        """Return it with a constant behind it as gamma or beta."""
        rank = len(self.order)
        if array.ndim > rank:
            return None
        padded = array.reshape((1,) * (rank - array.ndim) + array.shape)
        norm = _joined(self.norm, op, padded.transpose(np.argsort(self.order)))
        return None if norm is None else _Turned(norm, self.order)


def _joined(norm: NormCall, op: str, array: np.ndarray) -> NormCall | None:
    """Return a norm with a constant behind it as gamma or beta."""
    if op == "multiply":
        return norm.multiplied(array)
    return norm.added(array if op == "add" else -array)


def _product(scope: Scope, value: relax.Call) -> NormCall | _Turned | Declined | None:
    """Return the norm that a product of two factors is, or a norm times a constant."""
    return _with_constant(scope, value) or _standardized(scope, value)


def _sum(scope: Scope, value: relax.Call) -> NormCall | _Turned | Declined | None:
    """Return a norm plus a constant, or the norm that TensorFlow writes as a sum."""
    return _with_constant(scope, value) or _shifted_product(scope, value)


def _with_constant(scope: Scope, value: relax.Call) -> NormCall | _Turned | None:
    """Return a norm with a constant behind it as gamma or beta."""
    op = operator(value)
    pairs = (value.args, reversed(value.args)) if op in ("add", "multiply") else (value.args,)
    for x, other in pairs:
        array = constant(other)
        if array is None or not scope.used_once(x) or shape(x) != shape(value):
            continue
        if norm := norm_call_of(scope.value(x)):
            return _joined(norm, op, array)
        if turned := _turned(scope, scope.value(x)):
            return turned.with_constant(op, array)
    return None


def _turned(scope: Scope, value: relax.Expr) -> _Turned | None:
    """Return the norm that ``value`` transposes, or None."""
    if operator(value) != "permute_dims" or not scope.used_once(value.args[0]):
        return None
    norm = norm_call_of(scope.value(value.args[0]))
    rank = len(shape(value))
    axes = value.attrs.axes
    order = range(rank)[::-1] if axes is None else (int(axis) % rank for axis in axes)
    return None if norm is None else _Turned(norm, tuple(order))


def _standardized(scope: Scope, value: relax.Call) -> NormCall | _Turned | Declined | None:
    """Return the norm that the quotient of a tensor and its deviation is."""
    for numerator, deviation, factor in _quotients(scope, value):
        for x, own in _scaled(scope, numerator):
            if deviation.divides(scope, x):
                return _norm(scope, deviation, factor * own)
    return None


def _quotients(
    scope: Scope, value: relax.Call
) -> Iterator[tuple[relax.Expr, Deviation, np.ndarray]]:
    """Yield numerator, deviation and constant factor of what may be a norm."""
    a, b = value.args
    if operator(value) == "divide":
        deviation = deviation_of(scope, b)
        if deviation is not None:
            yield a, deviation, ONE
        return
    for numerator, factor in ((a, b), (b, a)):
        for inverse, own in _scaled(scope, factor):
            deviation = inverse_of(scope, inverse)
            if deviation is not None:
                yield numerator, deviation, own


def _scaled(scope: Scope, operand: relax.Expr) -> Iterator[Scaled]:
    """Yield what an operand is: itself, and if it is a product with a constant the other factor."""
    yield operand, ONE
    value = scope.value(operand)
    if operator(value) == "multiply":
        for x, other in (value.args, reversed(value.args)):
            array = constant(other)
            if array is not None:
                yield x, array


def _shifted_product(scope: Scope, value: relax.Call) -> NormCall | _Turned | Declined | None:
    """Return the norm that ``x * g + (beta - mean(x) * g)`` is."""
    for product, rest in (value.args, reversed(value.args)):
        if operator(scope.value(product)) != "multiply":
            continue
        for beta, subtrahend, is_negative in _shifts(scope, rest):
            for x, factor in _factors(scope, product):
                deviation, gamma = _inverse(scope, factor)
                if deviation is None or not (deviation.centred and is_same(x, deviation.x)):
                    continue
                means = [
                    mean_of(scope, mean)
                    for m, g in _factors(scope, subtrahend)
                    if is_same(g, factor)
                    for mean in (_negated(scope, m) if is_negative else [m])
                ]
                if any(
                    mean and is_same(mean[0], x) and mean[1] == deviation.axes for mean in means
                ):
                    norm = _norm(scope, deviation, gamma)
                    if isinstance(norm, _Turned):
                        return norm.with_constant("add", beta)
                    return norm.added(beta) if isinstance(norm, NormCall) else norm
    return None


def _shifts(scope: Scope, operand: relax.Expr) -> Iterator[tuple[np.ndarray, relax.Expr, bool]]:
    """Yield beta and what is taken from it, or added to it where that is a negative."""
    value = scope.value(operand)
    if operator(value) == "subtract" and (beta := constant(value.args[0])) is not None:
        yield beta, value.args[1], False
    if operator(value) == "add":
        for other, shift in (value.args, reversed(value.args)):
            if (beta := constant(other)) is not None:
                yield beta, shift, True
    yield np.zeros(()), operand, True


def _negated(scope: Scope, operand: relax.Expr) -> list[relax.Expr]:
    """Return what an operand is the negative of; nothing if it is none."""
    value = scope.value(operand)
    return [value.args[0]] if operator(value) == "negative" else []


def _factors(scope: Scope, operand: relax.Expr) -> Iterator[tuple[relax.Expr, relax.Expr]]:
    """Yield the two factors of a product, in both orders; nothing for another operator."""
    value = scope.value(operand)
    if operator(value) == "multiply":
        a, b = value.args
        yield a, b
        yield b, a


def _inverse(scope: Scope, operand: relax.Expr) -> tuple[Deviation | None, np.ndarray]:
    """Return the deviation that an operand is one over, and a constant factor."""
    for inverse, own in _scaled(scope, operand):
        deviation = inverse_of(scope, inverse)
        if deviation is not None:
            return deviation, own
    return None, ONE


def _norm(
    scope: Scope, deviation: Deviation, factor: np.ndarray
) -> NormCall | _Turned | Declined | None:
    """Return the norm of a deviation, with gamma; axes that are not the last ones are moved."""
    x, axes = deviation.x, deviation.axes
    rank = len(shape(x))
    order = [*(axis for axis in range(rank) if axis not in axes), *axes]
    if order == list(range(rank)):
        return _norm_of_rows(deviation, factor)
    dims = [shape(x)[axis] for axis in axes]
    if not all(isinstance(size, int) for size in dims):
        return Declined(f"it normalizes axes {list(axes)} of {shape(x)}, whose sizes are open")
    rows = scope.emit("rows", relax.op.permute_dims(x, order))
    last = tuple(range(rank - len(axes), rank))
    norm = _norm_of_rows(replace(deviation, x=rows, axes=last), ONE)
    if not isinstance(norm, NormCall):
        return norm
    turned = _Turned(norm, tuple(int(axis) for axis in np.argsort(order)))
    return turned.with_constant("multiply", factor) or Declined(
        f"its gamma {factor.shape} is not that of axes {list(axes)} of {shape(x)}"
    )


def _norm_of_rows(deviation: Deviation, factor: np.ndarray) -> NormCall | Declined | None:
    """Return the norm of a deviation along the last axes, with gamma."""
    x, axes = deviation.x, deviation.axes
    dims = shape(x)
    if not all(isinstance(dims[axis], int) for axis in axes):
        return Declined(f"it normalizes axes {list(axes)} of {dims}, whose sizes are open")
    if not deviation.centred and axes[0] == 0:
        return None  # TVM 0.27 cannot compile its RMSNorm where no axis is left before
    kind = "nn.layer_norm" if deviation.centred else "nn.rms_norm"
    size = math.prod(dims[axis] for axis in axes) if deviation.summed else 1
    scale = size * deviation.factor
    norm = NormCall.neutral(kind, x, axes, deviation.epsilon / scale)
    if scale != 1:
        factor = factor / np.sqrt(scale)
    return norm.multiplied(factor) or Declined(f"its gamma {factor.shape} is not that of {dims}")


def _grouped(scope: Scope, value: relax.Call) -> NormCall | None:
    """Return the GroupNorm that a norm of rows, between two reshapes, is."""
    inner = value.args[0]
    norm = norm_call_of(scope.value(inner)) if scope.used_once(inner) else None
    if norm is None or norm.kind not in ("nn.layer_norm", "nn.instance_norm"):
        return None
    cut = scope.value(norm.x)
    if operator(cut) != "reshape" or not (norm.is_neutral and norm.over_pixels):
        return None
    x, dims, groups = cut.args[0], shape(value), shape(norm.x)[1]
    if shape(x) != dims or len(dims) < 3 or not isinstance(dims[1], int):
        return None
    is_cut = shape(norm.x)[0] == dims[0] and dims[1] % groups == 0
    if not is_cut or math.prod(shape(norm.x)[1:]) != math.prod(dims[1:]):
        return None
    axes = range(2, len(dims))
    return NormCall.neutral("nn.group_norm", x, axes, norm.epsilon, groups)


def _uncast(scope: Scope, value: relax.Call) -> relax.Expr | None:
    """Return the operand of a cast to its own type, as mixed precision has around norms."""
    x = value.args[0]
    return x if isinstance(x, relax.Var) and dtype(x) == dtype(value) else None


def _without_flags(scope: Scope, value: relax.Call) -> NormCall | None:
    """Return a norm that leaves out gamma or beta with one or zero in their place."""
    return norm_call_of(value) if has_flags(value) else None


_RULES = {
    **dict.fromkeys(NORMS, _without_flags),
    "add": _sum,
    "astype": _uncast,
    "subtract": _with_constant,
    "multiply": _product,
    "divide": _standardized,
    "reshape": _grouped,
}
