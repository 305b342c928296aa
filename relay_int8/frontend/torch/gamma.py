"""The logarithm of the gamma function and its derivative, by Stirling's series.

    lgamma(x)  = (x - 1/2) log x - x + log(2 pi) / 2 + 1 / (12 x) - 1 / (360 x^3), for x above 8;
    smaller x are raised by 8 first:  lgamma(x) = lgamma(x + 8) - log(x (x + 1) ... (x + 7))
    and those below 1/2 are mirrored: lgamma(x) = log(pi / |sin(pi x)|) - lgamma(1 - x)

Digamma is the derivative of each. Within 1e-5 of PyTorch where the function is of that order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tvm import relax

from relay_int8.frontend.torch.step import Converter, Result, TorchStep

RAISED = 8
Function = Callable[[TorchStep, relax.Expr], relax.Expr]


def _series(step: TorchStep, x: relax.Expr, coefficients: Sequence[float]) -> relax.Expr:
    """Return a polynomial of ``x``, the constant first."""
    total = step.number(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        product = step.emit("product", relax.op.multiply(total, x))
        total = step.emit("series", relax.op.add(product, step.number(coefficient)))
    return total


def _log_large(step: TorchStep, x: relax.Expr) -> relax.Expr:
    log = step.emit("log", relax.op.log(x))
    less = step.emit("less", relax.op.subtract(x, step.number(0.5)))
    inverse = step.emit("inverse", relax.op.divide(step.number(1.0), x))
    square = step.emit("square", relax.op.square(inverse))
    small = relax.op.multiply(inverse, _series(step, square, [1 / 12, -1 / 360, 1 / 1260]))
    whole = step.emit("whole", relax.op.multiply(less, log))
    whole = step.emit("whole", relax.op.subtract(whole, x))
    whole = step.emit("whole", relax.op.add(whole, step.number(math.log(2 * math.pi) / 2)))
    return step.emit("large", relax.op.add(whole, step.emit("small", small)))


def _slope_large(step: TorchStep, x: relax.Expr) -> relax.Expr:
    log = step.emit("log", relax.op.log(x))
    inverse = step.emit("inverse", relax.op.divide(step.number(1.0), x))
    square = step.emit("square", relax.op.square(inverse))
    half = step.emit("half", relax.op.multiply(inverse, step.number(0.5)))
    small = relax.op.multiply(square, _series(step, square, [1 / 12, -1 / 120, 1 / 252]))
    less = step.emit("less", relax.op.subtract(log, half))
    return step.emit("large", relax.op.subtract(less, step.emit("small", small)))


def _log_product(step: TorchStep, x: relax.Expr) -> relax.Expr:
    product = x
    for i in range(1, RAISED):
        factor = step.emit("factor", relax.op.add(x, step.number(float(i))))
        product = step.emit("factors", relax.op.multiply(product, factor))
    return step.emit("log", relax.op.log(product))


def _inverse_sum(step: TorchStep, x: relax.Expr) -> relax.Expr:
    total = step.emit("inverse", relax.op.divide(step.number(1.0), x))
    for i in range(1, RAISED):
        factor = step.emit("factor", relax.op.add(x, step.number(float(i))))
        inverse = step.emit("inverse", relax.op.divide(step.number(1.0), factor))
        total = step.emit("inverses", relax.op.add(total, inverse))
    return total


def _log_mirrored(step: TorchStep, turn: relax.Expr, mirrored: relax.Expr) -> relax.Expr:
    size = step.emit("size", relax.op.abs(step.emit("sin", relax.op.sin(turn))))
    log = step.emit("log", relax.op.log(size))
    both = step.emit("both", relax.op.add(log, mirrored))
    return step.emit("mirrored", relax.op.subtract(step.number(math.log(math.pi)), both))


def _slope_mirrored(step: TorchStep, turn: relax.Expr, mirrored: relax.Expr) -> relax.Expr:
    pi = step.number(math.pi)
    tangent = step.emit("tan", relax.op.tan(turn))
    return step.emit(
        "mirrored",
        relax.op.subtract(mirrored, step.emit("part", relax.op.divide(pi, tangent))),
    )


def _function(
    large: Function,
    raised: Function,
    mirrored: Callable[[TorchStep, relax.Expr, relax.Expr], relax.Expr],
) -> Converter:
    """Compute a function by its values above 8, what raising takes away, and its mirror image."""

    def _convert(step: TorchStep) -> Result:
        one = step.number(1.0)
        is_below = step.emit("is_below", relax.op.less(step.x, step.number(0.5)))
        other = step.emit("other", relax.op.subtract(one, step.x))
        x = step.emit("above", relax.op.where(is_below, other, step.x))
        is_large = step.emit("is_large", relax.op.greater(x, step.number(float(RAISED))))
        lifted = step.emit("lifted", relax.op.add(x, step.number(float(RAISED))))
        base = step.emit("base", relax.op.where(is_large, one, x))
        grown = large(step, step.emit("grown", relax.op.where(is_large, x, lifted)))
        lowered = step.emit("lowered", relax.op.subtract(grown, raised(step, base)))
        value = step.emit("value", relax.op.where(is_large, grown, lowered))
        fraction = step.emit(
            "fraction", relax.op.subtract(step.x, step.emit("floor", relax.op.floor(step.x)))
        )  # of a period, so that the sine of a large number keeps its bits
        turn = step.emit("turn", relax.op.multiply(fraction, step.number(math.pi)))
        return relax.op.where(is_below, mirrored(step, turn, value), value)

    return _convert


GAMMA: dict[str, Converter] = {
    "digamma": _function(_slope_large, _inverse_sum, _slope_mirrored),
    "lgamma": _function(_log_large, _log_product, _log_mirrored),
}
