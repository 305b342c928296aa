"""Compare booleans as bytes.

    Before:  y = equal(a, b)                                       a, b: bool
    After:   y = equal(astype(a, "int8"), astype(b, "int8"))

Place:  before TVM's own lowering: of two booleans it makes a comparison of floats, which LLVM
        refuses ("Invalid operand types for FCmp", TVM 0.27).
Exact:  bit-identical.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import dtype, operator
from relay_int8.graph.rewriting import Scope, rewrite_main

COMPARISONS = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")


@tvm.transform.module_pass(opt_level=0, name="CompareBooleans")
class CompareBooleans:
    """Compare booleans as bytes."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` without comparisons of booleans; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _as_bytes)


def _as_bytes(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    if operator(value) not in COMPARISONS or dtype(value.args[0]) != "bool":
        return None
    sides = zip(("left", "right"), value.args, strict=True)
    numbers = [scope.emit(side, relax.op.astype(operand, "int8")) for side, operand in sides]
    return relax.Call(value.op, numbers)
