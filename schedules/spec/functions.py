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

EXP_RANGE = (-104.0, 89.0)
"""What exp of any number is taken of: below it is 0 in float32, above infinity."""
TANH_SERIES = (-0.0057051431, 0.0206391722, -0.0537397138, 0.1333144164, -0.3333328188)
"""``tanh(x) = x + x**3 * p(x**2)`` to 5e-9 of it near 0, highest power first; fitted."""
ERF_SERIES = (
    7.852763e-05,
    -8.009911429e-04,
    5.188305691e-03,
    -2.685381058e-02,
    1.128358565e-01,
    -3.76126260e-01,
    1.1283791658,
)
"""``erf(x) = x * p(x**2)`` to 2e-9 of it near 0, highest power first; fitted."""
SERIES_END = {"tanh": 0.625, "erf": 1.0}
"""Up to which magnitude a function is the series above; behind it is made of exp."""
LOG_SERIES = (
    -0.0763837447,
    0.1276380889,
    -0.1315960829,
    0.1420135840,
    -0.1662338606,
    0.2000124807,
    -0.2500082033,
    0.3333333144,
)
"""``log(1 + f) = f - f**2 / 2 + f**3 * p(f)`` to 6e-9 of it, 1 + f in [sqrt(1/2), sqrt(2)); fitted
as the others: the greatest error least (Remez)."""
HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
"""They add up to pi / 2; an fma with the first is exact where it leaves less than one."""
SIN_SERIES = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COS_SERIES = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
"""``sin(r) = r + r**3 * p(r**2)`` and ``cos(r) = 1 - r**2 / 2 + r**4 * p(r**2)`` up to pi / 4,
highest power first. Source: Cephes, sinf.c."""
GREATEST_ANGLE = 2.0**20
"""What larger angles are taken for, whose neighbours are a sixteenth and more apart."""
LEAST_MANTISSA_BITS = 0x3F3504F3  # of sqrt(1/2)
SUBNORMAL_STEPS = 23  # powers of two that subnormal numbers are multiplied by


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
