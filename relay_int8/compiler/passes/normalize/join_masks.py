"""Add a constant mask of scores to the computed one, since attention adds one mask.

    Before:  y = softmax(add(add(q @ k', bias), constant))          and the constant first
    After:   y = softmax(add(q @ k', add(bias, constant)))

Place:  after FoldAffine: constants are as they stay.
Exact:  the same sums; of floats their order differs.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import IRModule, relax

from relay_int8.graph import dataflow
from relay_int8.graph.rewriting import Scope, rewrite_main
from relay_int8.graph.scores import is_near_product

FURTHEST = 4  # operators between a mask and the softmax
BEFORE_SOFTMAX = ("add", "reshape", "multiply")
"""Operators that may stand between two masks and their softmax."""


@tvm.transform.module_pass(opt_level=0, name="JoinMasks")
class JoinMasks:
    """Add a constant mask of scores to the computed one."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such masks joined; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _Joiner(mod["main"]).rewrite)


class _Joiner:
    def __init__(self, func: relax.Function) -> None:
        self._operators = {str(v.name): dataflow.operator(e) for v, e in dataflow.calls(func)}
        self._readers = {
            str(var.name): [str(reader.name) for reader in readers]
            for var, readers in dataflow.consumers(func).items()
        }

    def rewrite(self, scope: Scope, value: relax.Expr) -> relax.Expr | None:
        """Return the sum of scores and both masks, or None."""
        if dataflow.operator(value) != "add" or not self._is_score(scope.name):
            return None
        values = dict(scope.bindings)
        for inner, outer in (value.args, reversed(value.args)):
            first = scope.value(inner)
            if dataflow.operator(first) != "add" or not scope.used_once(inner):
                continue
            for score, other in (first.args, reversed(first.args)):
                if _are_masks(score, other, outer, values):
                    mask = scope.emit("mask", relax.op.add(other, outer))
                    return relax.op.add(score, mask)
        return None

    def _is_score(self, name: str) -> bool:
        """Say whether a softmax reads a tensor, a few operators on."""
        for _ in range(FURTHEST):
            readers = self._readers.get(name, [])
            if len(readers) != 1:
                return False
            (name,) = readers
            if self._operators[name] == "nn.softmax":
                return True
            if self._operators[name] not in BEFORE_SOFTMAX:
                return False
        return False


def _are_masks(
    score: relax.Expr,
    other: relax.Expr,
    outer: relax.Expr,
    values: Mapping[relax.Var, relax.Expr],
) -> bool:
    """Say whether one of two masks is constant, the other computed, and neither of a product."""
    constants = [dataflow.constant(mask) is not None for mask in (other, outer)]
    computed = outer if constants[0] else other
    return (
        sum(constants) == 1
        and dataflow.dtype(computed) == "float32"
        and is_near_product(score, values)
        and not is_near_product(computed, values)
    )
