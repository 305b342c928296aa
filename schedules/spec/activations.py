"""Smooth functions that a convolution or a dense layer applies to its sums before they are rounded.

    a = -|x|
    p = P(max(a, -limit))             by fma from its highest term
    q = p ** (2 ** squarings)         p times itself, each square rounded to float32
    y = fma(a, q, max(x, 0))          x * g(x), g rising from 0 to 1, 1 - g(x) = g(-x)
    y = fma(0 - h, r, 1) where x >= 0, else q = h * r            of sigmoid's kind: g itself

So ``q`` is what ``g`` is short of 0 or 1 at x. It falls like an exponential, of which the eighth
root is a polynomial of few terms: no division and no exponential, which would cost several times
what the sums of a narrow convolution do. ``h * r`` is the last square, or ``p * 1`` without any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Activation = Literal[
    "sigmoid",
    "steep_sigmoid",
    "hard_sigmoid",
    "swish",
    "hard_swish",
    "quick_gelu",
    "gelu",
    "gelu_tanh",
]


@dataclass(frozen=True)
class Gate:
    """How q is computed.

    Parameters
    ----------
    limit
        Beyond it, on either side, q is constant.
    series
        Coefficients of P, highest power first; kernels have them as float32.
    squarings
        How often p is squared.
    """

    limit: float
    series: tuple[float, ...]
    squarings: int = 3

    def stretched(self, factor: float) -> Gate:
        """Return the gate of ``factor * x``."""
        powers = range(len(self.series) - 1, -1, -1)
        series = tuple(c * factor**power for c, power in zip(self.series, powers, strict=True))
        return Gate(self.limit / factor, series, self.squarings)


# The least largest errors of x * g with so many powers, by Lawson's repeated least squares:
# 8e-4, 4e-4 and 3e-4, which is next to nothing beside the rounding to a byte behind them.
_LOGISTIC = Gate(10.0, (-0.0001385264, -0.002599533, -0.01322916, 0.05800393, 0.9171726))
_NORMAL = Gate(4.5, (-0.004578493, -0.03767906, 0.08957108, 0.9169174))
_NORMAL_TANH = Gate(4.75, (-0.004089356, -0.03656391, 0.09004987, 0.9169434))
_HARD = Gate(3.0, (1 / 6, 0.5), squarings=0)

GATES: dict[Activation, Gate] = {
    "sigmoid": _LOGISTIC,
    "steep_sigmoid": _LOGISTIC.stretched(2.0),
    "hard_sigmoid": _HARD,
    "swish": _LOGISTIC,
    "hard_swish": _HARD,
    "quick_gelu": _LOGISTIC.stretched(1.702),
    "gelu": _NORMAL,
    "gelu_tanh": _NORMAL_TANH,
}
"""``steep_sigmoid`` is ``sigmoid(2 * x)``, of which tanh is twice less 1; ``swish`` is
``x * sigmoid(x)``, ``quick_gelu`` ``x * sigmoid(1.702 * x)``, ``hard_sigmoid``
``clip(x / 6 + 1 / 2, 0, 1)``, ``hard_swish`` x times that; ``gelu_tanh`` is GELU by tanh."""

GATES_ALONE: tuple[Activation, ...] = ("sigmoid", "steep_sigmoid", "hard_sigmoid")
"""Those that are g, not x times g."""
