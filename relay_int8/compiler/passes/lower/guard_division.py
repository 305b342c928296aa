"""Give integer divisions by 0 and by -1 a defined result.

    Before:  y = divide(x, d)                                      x, d: int32
    After:   y = where(d == 0, 0, where(d == -1, 0 - x, divide(x, where(d in {0, -1}, 1, d))))

Place:  before TVM's own lowering: processors stop a program (SIGFPE) that divides an integer by 0,
        or the least one by -1.
Exact:  bit-identical wherever the quotient exists. A quotient by 0 is 0 and so is the rest, as in
        NumPy; the least integer by -1 is itself. Constant divisors without 0 and -1 stay.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, dtype, operator
from relay_int8.graph.rewriting import Scope, rewrite_main

QUOTIENTS = ("divide", "floor_divide")
RESTS = ("floor_mod", "mod")


@tvm.transform.module_pass(opt_level=0, name="GuardDivision")
class GuardDivision:
    """Give integer divisions by 0 and by -1 a defined result."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` without divisions that trap; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _guard)


def _guard(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    name = operator(value)
    if name not in (*QUOTIENTS, *RESTS) or "int" not in (kind := dtype(value.args[0])):
        return None
    x, divisor = value.args
    traps = [0, -1] if np.iinfo(kind).min < 0 else [0]
    if (known := constant(divisor)) is not None and not np.isin(known, traps).any():
        return None

    def _number(of: int) -> relax.Constant:
        return relax.const(np.array(of, kind), kind)

    is_trap = [scope.emit("is_trap", relax.op.equal(divisor, _number(trap))) for trap in traps]
    safe = divisor
    for this in is_trap:
        safe = scope.emit("safe", relax.op.where(this, _number(1), safe))
    result = scope.emit("divided", relax.Call(value.op, [x, safe], value.attrs))
    for trap, this in zip(traps, is_trap, strict=True):
        is_negated = trap == -1 and name in QUOTIENTS
        other = scope.emit("negated", relax.op.negative(x)) if is_negated else _number(0)
        result = scope.emit("guarded", relax.op.where(this, other, result))
    return result
