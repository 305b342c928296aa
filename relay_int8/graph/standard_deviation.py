"""Standard deviations and root mean squares that a file writes out of means, powers and roots.

    sqrt(mean((x - mean(x)) ** 2) + epsilon)       also by variance(x), and with x alone

with ``sum`` for ``mean`` too (L2 norms), as what something is divided by, or as a factor:
``rsqrt``, ``1 / sqrt``, a power of -1/2. A bound from below in place of epsilon, as L2 norms have
it, is taken for one: ``max(norm, bound)`` differs from ``sqrt(norm ** 2 + bound ** 2)`` only where
the norm is about as small as the bound.
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

    ``epsilon`` is added to the mean; with ``summed`` it is the root of a sum, and added to that.
    """

    x: relax.Expr
    axes: Axes
    centred: bool
    epsilon: float = 0.0
    summed: bool = False

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
    value = scope.value(operand)
    return _reduced(value) if operator(value) == "mean" else None


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
    value = scope.value(operand)
    if operator(value) == "variance":
        reduced = _reduced(value)
        return None if reduced is None else Deviation(*reduced, True)
    if operator(value) not in ("mean", "sum"):
        return None
    total = _reduced(value)
    root = None if total is None else _squared(scope, total[0])
    if total is None or root is None:
        return None
    summed, axes = operator(value) == "sum", total[1]
    centred = centred_of(scope, root)
    if centred is not None and centred[1] == axes:
        return Deviation(centred[0], axes, True, summed=summed)
    return Deviation(root, axes, False, summed=summed)


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


def _reduced(value: relax.Call) -> tuple[relax.Expr, Axes] | None:
    """Return what a reduction reads, and the axes that it keeps with extent 1; None of others."""
    if not value.attrs.keepdims or value.attrs.axis is None:
        return None
    rank = len(shape(value.args[0]))
    return value.args[0], tuple(sorted(int(axis) % rank for axis in value.attrs.axis))


def _is_number(operand: relax.Expr, wanted: float) -> bool:
    array = constant(operand)
    return array is not None and array.size == 1 and bool(np.all(array == wanted))
