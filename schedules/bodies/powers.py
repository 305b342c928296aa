"""Powers of two as bytes, of one lane or a vector of lanes: what attention weighs values with.

Exact:  bit-identical to ``schedules.spec.product.Attention``.
"""

from __future__ import annotations

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.vectors import cast, fma, lanes, rint, splat
from schedules.spec.product import EXP2_SERIES, LEAST_EXPONENT


def power(t: Expr) -> Expr:
    """Return int32 lanes of ``rint(255 * 2**t)``; t is float32 and at most 0."""
    count = lanes(t)

    def _number(value: float, dtype: str = "float32") -> Expr:
        return splat(value, dtype, count)

    t = T.Bind(tirx.max(t, _number(LEAST_EXPONENT)))
    n = T.Bind(rint(t))
    f = t - cast(n, "float32")
    p = _number(EXP2_SERIES[0])
    for coefficient in EXP2_SERIES[1:]:
        p = fma(p, f, _number(coefficient))
    whole, real = ("int32", "float32") if count == 1 else (f"int32x{count}", f"float32x{count}")
    bits = tirx.reinterpret(whole, p) + n * _number(1 << 23, "int32")
    return rint(tirx.reinterpret(real, bits))
