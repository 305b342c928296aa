"""Write a sum over a few branches of an image as additions of these.

    Before:  s = concat([expand_dims(a, 1), expand_dims(b, 1)], axis=1)
             y = sum(multiply(s, gates), axis=[1])
    After:   y = add(multiply(a, gates[:, 0]), multiply(b, gates[:, 1]))

SKNet and ResNeSt weigh their branches so. Products and additions of images are integers, sums along
an axis are not. Branches may also be slices of channels, as a convolution that computes all of them
gives.

Place:  after CanonicalizeReshape, which makes one operator of all changes of shape.
Exact:  bit-identical for two branches; else sums of float32 may be ordered differently.
"""

from __future__ import annotations

import functools

import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import IMAGE, dtype, is_quantized, operator, shape
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main

AXIS = 1
MOST = 4  # branches: each addition but the last is a tensor of its own, rounded to a byte


@tvm.transform.module_pass(opt_level=0, name="SplitSums")
class SplitSums:
    """Write a sum over a few branches of an image as additions of these."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such sums as additions; itself if it is quantized already."""
        return mod if is_quantized(mod) else rewrite_main(mod.clone(), _added)


def _added(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    if operator(value) != "sum" or len(shape(value)) != IMAGE or dtype(value) != "float32":
        return None
    x, axes = value.args[0], value.attrs.axis
    rank = len(shape(x))
    if rank != IMAGE + 1 or axes is None or [int(axis) % rank for axis in axes] != [AXIS]:
        return None
    count = shape(x)[AXIS]
    if not isinstance(count, int) or not 2 <= count <= MOST:
        return Declined(f"it sums {count} branches, not 2 to {MOST}")
    branches = [_branch(scope, x, index) for index in range(count)]
    first, *others = branches
    *inner, last = others
    total = functools.reduce(
        lambda sum_, branch: scope.emit("sum", relax.op.add(sum_, branch)), inner, first
    )
    return relax.op.add(total, last)


def _branch(scope: Scope, x: relax.Expr, index: int) -> relax.Expr:
    """Return one branch of ``x``, without the axis of branches."""
    value = scope.value(x)
    n, count, channels, *pixels = shape(x)
    if operator(value) == "multiply" and scope.used_once(x):
        factors = [_branch(scope, factor, index) for factor in value.args]
        return scope.emit("product", relax.op.multiply(*factors))
    if count == 1:  # a factor of all branches
        return _reshaped(scope, x, (n, channels, *pixels))
    if operator(value) == "concat" and int(value.attrs.axis) == AXIS:
        parts = value.args[0].fields[:]
        if len(parts) == count:
            return _reshaped(scope, parts[index], (n, channels, *pixels))
    source = value.args[0] if operator(value) == "reshape" else x
    if shape(source) == (n, count * channels, *pixels):
        begin = index * channels
        part = relax.op.strided_slice(source, [AXIS], [begin], [begin + channels])
        return scope.emit("branch", part)
    part = scope.emit("part", relax.op.strided_slice(x, [AXIS], [index], [index + 1]))
    return _reshaped(scope, part, (n, channels, *pixels))


def _reshaped(scope: Scope, x: relax.Expr, dims: tuple[int, ...]) -> relax.Expr:
    while operator(scope.value(x)) == "reshape":
        x = scope.value(x).args[0]
    return x if shape(x) == dims else scope.emit("branch", relax.op.reshape(x, dims))
