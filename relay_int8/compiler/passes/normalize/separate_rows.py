"""Let a dense layer read rows along their own axes, where a file merges these around it.

    Before:  r = reshape(x, (n * l, k));  a = add(matmul(r, w), b);  y = reshape(a, (n, l, c))
    After:   y = add(matmul(x, w), b)

So an activation behind the second reshape belongs to the layer. PyTorch decomposes linear layers
so, and Keras writes them so.

Place:  after CanonicalizeReshape and MoveBias, before FoldAffine.
Exact:  bit-identical.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, operator, shape
from relay_int8.graph.rewriting import Scope, rewrite_main


@tvm.transform.module_pass(opt_level=0, name="SeparateRows")
class SeparateRows:
    """Let a dense layer read rows along their own axes."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` without such merges; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _separated)


def _separated(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    if operator(value) != "reshape" or not scope.used_once(value.args[0]):
        return None
    inner, bias = scope.value(value.args[0]), None
    if operator(inner) == "add":
        sides = [(inner.args[i], inner.args[1 - i]) for i in (0, 1)]
        rows, bias = next((pair for pair in sides if _is_bias(*pair)), (None, None))
        if not scope.used_once(rows):
            return None
        inner = scope.value(rows)
    if operator(inner) != "matmul" or constant(inner.args[1]) is None:
        return None
    merged, w = scope.value(inner.args[0]), inner.args[1]
    if operator(merged) != "reshape" or len(shape(w)) != 2:
        return None
    x = merged.args[0]
    if shape(value) != (*shape(x)[:-1], shape(w)[1]) or shape(x)[-1] != shape(w)[0]:
        return None
    product = relax.op.matmul(x, w)
    return product if bias is None else relax.op.add(scope.emit("matmul", product), bias)


def _is_bias(rows: relax.Expr, bias: relax.Expr) -> bool:
    """Whether an operand is one number for each of the last axis of rows, or for all."""
    array = constant(bias)
    return array is not None and array.size in (1, shape(rows)[-1]) and array.ndim <= 1
