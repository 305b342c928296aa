"""exp of float32 as the numeric contract has it, of one lane or a vector of lanes.

Exact:  bit-identical to ``schedules.reference.functions.exp``, which no library's exp is on all
        targets.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.vectors import cast, fma, lanes, rint, splat, vector
from schedules.spec.functions import EXP_SERIES, LN2_HIGH, LN2_LOW, LOG2_E


def _repeated(value: Expr) -> Expr:
    return value


def exp(a: Expr, held: Callable[[Expr], Expr] = _repeated) -> Expr:
    """Return exp of ``a``, from -87 to 0; ``held`` binds what is read several times."""
    count = lanes(a)

    def _number(value: float) -> Expr:
        return splat(value, "float32", count)

    whole = held(rint(a * _number(LOG2_E)))
    n = cast(whole, "float32")
    r = held(fma(n, _number(-LN2_LOW), fma(n, _number(-LN2_HIGH), a)))
    p = _number(EXP_SERIES[0])
    for coefficient in EXP_SERIES[1:]:
        p = fma(p, r, _number(coefficient))
    exponent = whole * splat(1 << 23, "int32", count)
    bits = tirx.reinterpret(vector("int32", count), p) + exponent
    return tirx.reinterpret(vector("float32", count), bits)
