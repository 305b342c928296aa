"""Write every change of shape that keeps the row-major order as one reshape.

    Before:  y = squeeze(x);  z = expand_dims(y);  u = flatten(z)
    After:   u = reshape(x, its shape)

A permutation that moves only axes of extent 1 is such a change too. Two permutations are one.

Place:  after FoldConstants and CanonicalizePool, which makes reshapes.
Exact:  bit-identical.
"""

from __future__ import annotations

import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import operator, shape
from relay_int8.graph.rewriting import Scope, rewrite_main

SAME_ORDER = {"reshape", "flatten", "squeeze", "expand_dims"}


@tvm.transform.module_pass(opt_level=0, name="CanonicalizeReshape")
class CanonicalizeReshape:
    """Write every change of shape that keeps the row-major order as one reshape."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with reshapes alone; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _as_reshape)


def _as_reshape(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    op, composed = operator(value), None
    if op == "permute_dims" and operator(scope.value(value.args[0])) == "permute_dims":
        value = composed = _composed(scope, value)
    if op not in SAME_ORDER and not (op == "permute_dims" and _keeps_order(value)):
        return composed
    x = value.args[0]
    while operator(scope.value(x)) == "reshape":
        x = scope.value(x).args[0]
    if shape(x) == shape(value):
        return x
    written = op == "reshape" and x.same_as(value.args[0])
    return None if written else relax.op.reshape(x, shape(value))


def _composed(scope: Scope, value: relax.Call) -> relax.Call:
    """Return two permutations as one."""
    first = scope.value(value.args[0])
    axes = [_axes(first)[axis] for axis in _axes(value)]
    return scope.typed(relax.op.permute_dims(first.args[0], axes))


def _axes(value: relax.Call) -> list[int]:
    """Return the axes of a permutation, which are turned round where it names none."""
    rank = len(shape(value.args[0]))
    axes = value.attrs.axes
    return [*range(rank)][::-1] if axes is None else [int(axis) % rank for axis in axes]


def _keeps_order(value: relax.Call) -> bool:
    """Whether a permutation leaves the axes longer than 1 in their order."""
    extents = shape(value.args[0])
    long = [axis for axis in _axes(value) if extents[axis] != 1]
    return long == sorted(long)
