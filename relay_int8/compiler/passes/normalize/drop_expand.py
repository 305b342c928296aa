"""Remove the broadcast of a gate in front of a product, which broadcasts by itself.

    Before:  e = broadcast_to(gate, shape of x);  y = multiply(e, x)
    After:   y = multiply(x, gate)

Place:  with the canonical forms of normalize; exporters write squeeze-and-excite so.
Exact:  bit-identical.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import operator, shape
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="DropExpand")
class DropExpand:
    """Remove the broadcast of a gate in front of a product."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` without such expansions; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _broadcast_product)


def _broadcast_product(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    if operator(value) != "multiply":
        return None
    declined = None
    for x, expanded in (value.args, list(reversed(value.args))):
        inner = scope.value(expanded)
        if operator(inner) != "broadcast_to":
            continue
        axes = len(shape(inner.args[0])), len(shape(x))
        if shape(x) != shape(value):
            declined = Declined(f"not {expanded.name} alone is expanded, the other factor is too")
        elif axes[0] != axes[1]:
            declined = Declined(f"{expanded.name} expands {axes[0]} axes to {axes[1]}")
        else:
            return relax.op.multiply(x, inner.args[0])
    return declined
