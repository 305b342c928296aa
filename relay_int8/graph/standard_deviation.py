"""Standard deviations and root mean squares that a file writes out of means, powers and roots.

    sqrt(mean((x - mean(x)) ** 2) + epsilon)       also by variance(x), and with x alone

with ``sum`` for ``mean`` too (L2 norms), as what something is divided by, or as a factor:
``rsqrt``, ``1 / sqrt``, a power of -1/2. A bound from below in place of epsilon, as L2 norms have
it, is taken for one: ``max(norm, bound)`` differs from ``sqrt(norm ** 2 + bound ** 2)`` only where
the norm is about as small as the bound. Reduced axes may be put back by a reshape, and the mean
may have a factor: ``n / (n - 1)`` of n numbers, as PyTorch's default has it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from tvm import relax

from relay_int8.graph.dataflow import constant, operator, shape
from relay_int8.graph.rewriting import Scope

Axes = tuple[int, ...]
LARGEST_BOUND = 1e-6
"""Of a norm; a larger one may be meant to be reached. PyTorch's is 1e-12."""


@dataclass(frozen=True)
class Deviation:
    """The root mean square of ``x`` along ``axes``; ``centred`` is that of ``x - mean(x)``.

    ``epsilon`` is added to the mean times ``factor``; with ``summed`` it is the root of a sum, and
    added to that.
    """

    x: relax.Expr
    axes: Axes
    centred: bool
    epsilon: float = 0.0
    summed: bool = False
    factor: float = 1.0

    def divides(self, scope: Scope, numerator: relax.Expr) -> bool:
        """Say whether a quotient of ``numerator`` and this is a norm of ``x``."""
        if not self.centred:
            return is_same(numerator, self.x)
        centred = centred_of(scope, numerator)
        return centred is not None and is_same(centred[0], self.x) and centred[1] == self.axes


def is_same(a: relax.Expr, b: relax.Expr) -> bool:
    """Say whether two operands are one variable."""
    return isinstance(a, relax.Var) and bool(a.same_as(b))


def mean_of(scope: Scope, operand: relax.Expr) -> tuple[relax.Expr, Axes] | None:
    """Return x and the axes of a mean that keeps them, or None."""
    reduction = _reduction(scope, operand)
    if reduction is None or reduction.op != "mean" or reduction.factor != 1:
        return None
    return reduction.x, reduction.axes


def centred_of(scope: Scope, operand: relax.Expr) -> tuple[relax.Expr, Axes] | None:
    """Return x and the axes of ``x - mean(x)``, or None."""
    value = scope.value(operand)
    mean = mean_of(scope, value.args[1]) if operator(value) == "subtract" else None
    return mean if mean is not None and is_same(mean[0], value.args[0]) else None


def inverse_of(scope: Scope, operand: relax.Expr) -> Deviation | None:
    """Return the deviation that a factor is one over, or None."""
    value = scope.value(operand)
    if operator(value) == "rsqrt":
        return _variance(scope, value.args[0])
    if operator(value) == "divide" and _is_number(value.args[0], 1.0):
        return deviation_of(scope, value.args[1])
    if operator(value) == "power" and _is_number(value.args[1], -0.5):
        return _variance(scope, value.args[0])
    return None


def deviation_of(scope: Scope, operand: relax.Expr) -> Deviation | None:
    """Return the deviation that a divisor is, or None."""
    value = scope.value(operand)
    if operator(value) == "broadcast_to":
        return deviation_of(scope, value.args[0])
    if operator(value) == "maximum":
        return _bounded(value, deviation_of(scope, value.args[0]), power=2)
    is_root = operator(value) == "sqrt"
    if is_root or (operator(value) == "power" and _is_number(value.args[1], 0.5)):
        return _variance(scope, value.args[0])
    return None


def _variance(scope: Scope, operand: relax.Expr) -> Deviation | None:
    """Return what the square of a deviation, with epsilon added to it, is of."""
    value = scope.value(operand)
    if operator(value) == "maximum":
        return _bounded(value, _mean_square(scope, value.args[0]), power=1)
    if operator(value) == "add":
        for inner, epsilon in (value.args, reversed(value.args)):
            added, deviation = constant(epsilon), _mean_square(scope, inner)
            if deviation is not None and added is not None and added.size == 1:
                return replace(deviation, epsilon=float(added.reshape(())))
        return None
    return _mean_square(scope, operand)


def _bounded(value: relax.Call, deviation: Deviation | None, power: int) -> Deviation | None:
    """Return a deviation with its bound from below, to this power, as its epsilon."""
    bound = constant(value.args[1])
    if deviation is None or deviation.epsilon or bound is None or bound.size != 1:
        return None
    epsilon = float(bound.reshape(())) ** power
    return replace(deviation, epsilon=epsilon) if 0 < epsilon <= LARGEST_BOUND**2 else None


def _mean_square(scope: Scope, operand: relax.Expr) -> Deviation | None:
    reduction = _reduction(scope, operand)
    if reduction is None:
        return None
    axes, factor = reduction.axes, reduction.factor
    if reduction.op == "variance":
        return Deviation(reduction.x, axes, True, factor=factor)
    root = _squared(scope, reduction.x)
    if root is None:
        return None
    summed = reduction.op == "sum"
    centred = centred_of(scope, root)
    if centred is not None and centred[1] == axes:
        return Deviation(centred[0], axes, True, summed=summed, factor=factor)
    return Deviation(root, axes, False, summed=summed, factor=factor)


def _squared(scope: Scope, operand: relax.Expr) -> relax.Expr | None:
    """Return what is multiplied by itself."""
    value = scope.value(operand)
    if operator(value) == "square":
        return value.args[0]
    if operator(value) == "power" and _is_number(value.args[1], 2.0):
        return value.args[0]
    if operator(value) == "multiply" and is_same(*value.args):
        return value.args[0]
    return None


@dataclass(frozen=True)
class _Reduction:
    """A reduction of ``x`` by ``op`` that keeps its axes with extent 1, times ``factor``."""

    op: str
    x: relax.Expr
    axes: Axes
    factor: float


def _reduction(scope: Scope, operand: relax.Expr) -> _Reduction | None:
    """Return the reduction that an operand is, also behind reshapes and factors; or None."""
    value, factor = scope.value(operand), 1.0
    while operator(value) not in ("mean", "sum", "variance"):
        if operator(value) == "reshape":
            value = scope.value(value.args[0])
            continue
        scaled = _scaled(value)
        if scaled is None:
            return None
        value, factor = scope.value(scaled[0]), factor * scaled[1]
    if value.attrs.axis is None:
        return None
    dims = shape(value.args[0])
    axes = tuple(sorted(int(axis) % len(dims) for axis in value.attrs.axis))
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(dims))
    if tuple(shape(operand)) != kept:
        return None
    return _Reduction(operator(value), value.args[0], axes, factor)


def _scaled(value: relax.Expr) -> tuple[relax.Expr, float] | None:
    """Return x and the positive number that it is multiplied by, or None."""
    if operator(value) not in ("multiply", "divide"):
        return None
    swapped = operator(value) == "multiply"
    for x, other in (value.args, reversed(value.args)) if swapped else (value.args,):
        array = constant(other)
        if array is not None and array.size == 1 and 0 < array.reshape(()) < np.inf:
            number = float(array.reshape(()))
            return x, number if swapped else 1 / number
    return None


def _is_number(operand: relax.Expr, wanted: float) -> bool:
    array = constant(operand)
    return array is not None and array.size == 1 and bool(np.all(array == wanted))
