"""Write the guard of a softmax against rows without keys as a test of its own result.

    Before:  p = softmax(s);  kept = any(s != -inf, last axis);  y = where(kept, p, 0)
    After:   p = softmax(s);  y = where(isnan(p), 0, p)

PyTorch's attention gives zeros for a query of which every key is masked out, and decomposes into
the first; exporters to ONNX write the second, by which attention is recognized.

Place:  first, as scores of constants would be folded, and ``any`` become a pooling.
Exact:  bit-identical for scores below infinity; others have no softmax.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, dtype, operator, shape
from relay_int8.graph.rewriting import Scope, rewrite_main

ANY = {"max": True, "min": False}
"""Reduction of truth values, as numbers -> whether one of them is enough."""


@tvm.transform.module_pass(opt_level=0, name="CanonicalizeGuard")
class CanonicalizeGuard:
    """Write the guard of a softmax against rows without keys as a test of its own result."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such guards; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _tested)


def _tested(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    if operator(value) != "where":
        return None
    condition, *choices = value.args
    for is_hidden, zeros, p in ((True, *choices), (False, *reversed(choices))):
        array, softmax = constant(zeros), scope.value(p)
        if array is None or array.any() or operator(softmax) != "nn.softmax":
            continue
        rank = len(shape(p))
        if int(softmax.attrs.axis) % rank != rank - 1 or shape(p) != shape(value):
            continue
        if _tells_hidden_rows(scope, condition, softmax.args[0]) == is_hidden:
            test = scope.emit("hidden", relax.op.isnan(p))
            return relax.op.where(test, relax.const(np.zeros((), dtype(p)), dtype(p)), p)
    return None


def _tells_hidden_rows(scope: Scope, condition: relax.Expr, scores: relax.Expr) -> bool | None:
    """Return what a condition says where all scores of a row are -inf; None if it is another.

    It is followed back over changes of truth and type to one reduction of comparisons.
    """
    negated, needs_one = False, None
    while operator(call := scope.value(condition)) in ("logical_not", "astype", *ANY):
        op = operator(call)
        if op in ANY:
            if needs_one is not None or not _keeps_rows(call):
                return None
            needs_one = ANY[op] != negated
        negated ^= op == "logical_not"
        condition = call.args[0]
    if operator(call) not in ("equal", "not_equal") or needs_one is None:
        return None
    if not any(_is_hidden(a) and b.same_as(scores) for a, b in (call.args, call.args[::-1])):
        return None
    tells_hidden = (operator(call) == "equal") != negated
    return None if needs_one == tells_hidden else tells_hidden


def _keeps_rows(call: relax.Call) -> bool:
    """Whether a reduction is over the last axis alone, and keeps it."""
    rank = len(shape(call.args[0]))
    axes = [int(axis) % rank for axis in call.attrs.axis or range(rank)]
    return axes == [rank - 1] and bool(call.attrs.keepdims)


def _is_hidden(operand: relax.Expr) -> bool:
    array = constant(operand)
    return array is not None and array.size == 1 and bool(np.isneginf(array).all())
