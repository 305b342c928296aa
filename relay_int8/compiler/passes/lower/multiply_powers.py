"""Write small whole powers of floats as products.

    Before:  y = power(x, 3.0)
    After:   y = x * x * x

Place:  before TVM's own lowering, which calls the C library for each element, and warns.
Exact:  within float rounding.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, dtype, operator, shape
from relay_int8.graph.rewriting import Scope, rewrite_main

POWERS = (2, 3, 4)


@tvm.transform.module_pass(opt_level=0, name="MultiplyPowers")
class MultiplyPowers:
    """Write small whole powers of floats as products."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with products; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _as_product)


def _as_product(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    if operator(value) != "power" or dtype(value.args[0]) != "float32":
        return None
    x, exponent = value.args[0], constant(value.args[1])
    if exponent is None or exponent.size != 1 or exponent.ndim > len(shape(x)):
        return None
    if (power := exponent.item()) not in POWERS:
        return None
    square = relax.op.multiply(x, x)
    if power == 2:
        return square
    bound = scope.emit("square", square)
    return relax.op.multiply(bound, x if power == 3 else bound)
