"""Functions of a float32 tensor that give the same bits on every target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schedules.spec.operator_spec import OperatorSpec, Shape

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
"""They add up to ln 2; products of the first with whole numbers below 2**15 are exact."""
EXP_SERIES = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0)
"""Of exp(r), highest power first: within 2e-8 where |r| <= ln(2) / 2."""
LEAST_EXP_ARGUMENT = -87.0  # smallest argument whose exp is a normal float32
ERFC_STEP = 0.3275911
ERFC_SERIES = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
"""``erfc(z) = s * (a_1 + s * (a_2 + ...)) * exp(-z * z)`` , ``s = 1 / (1 + ERFC_STEP * z)``, to
1.5e-7 where z >= 0; a_5 comes first. Source: Abramowitz and Stegun, Handbook of Mathematical
Functions, 7.1.26."""


@dataclass(frozen=True, kw_only=True)
class Sigmoid(OperatorSpec):
    """``1 / (1 + exp(-x))`` of float32, every operation rounded as written, no params.

    ``a = max(-|x|, -87)``, ``n = rint(a * LOG2_E)``, ``r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, a))``
    with n as float32; p by fma from ``EXP_SERIES``; e is p with n added to its exponent bits;
    ``y = 1 / (1 + e)`` where x >= 0, else ``e / (1 + e)``.
    """

    kind: ClassVar[str] = "sigmoid"
    dims: Shape

    def shape(self, name: str) -> Shape:
        """Logical shape of x and y."""
        return self.dims

    def dtype(self, name: str) -> str:
        """Element type of x and y."""
        return "float32"


@dataclass(frozen=True, kw_only=True)
class Gelu(OperatorSpec):
    """``x * (1 + erf(x / sqrt(2))) / 2`` of float32, every operation rounded as written, no params.

    ``z = |x| * sqrt(1/2)``, ``s = 1 / fma(ERFC_STEP, z, 1)``, p by fma from ``ERFC_SERIES`` in s,
    ``e = exp(max(z * -z, -87))`` as :class:`Sigmoid` has it, ``c = p * s * e * 0.5``;
    ``y = fma(-x, c, x)`` where x >= 0, else ``x * c``.
    """

    kind: ClassVar[str] = "gelu"
    dims: Shape

    def shape(self, name: str) -> Shape:
        """Logical shape of x and y."""
        return self.dims

    def dtype(self, name: str) -> str:
        """Element type of x and y."""
        return "float32"
