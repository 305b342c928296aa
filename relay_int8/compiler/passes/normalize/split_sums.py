"""Write a sum over a few branches of an image as additions of these.

    Before:  s = concat([expand_dims(a, 1), expand_dims(b, 1)], axis=1)
             y = sum(multiply(s, gates), axis=[1])
    After:   y = add(multiply(a, gates[:, 0]), multiply(b, gates[:, 1]))

SKNet and ResNeSt weigh their branches so. Products and additions of images can be integers, sums
along an axis cannot. Branches may also be slices of channels that one convolution computes (FishNet
adds every k-th channel). A mean, as in FractalNet, is divided behind the sum.

Place:  after CanonicalizeReshape, which makes one operator of all changes of shape.
Exact:  sums of float32 may be ordered differently, a mean of three is a product with a third.
"""

from __future__ import annotations

import functools

import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import IMAGE, dtype, is_quantized, operator, shape
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main

AXES = (0, 1, 2)  # of branches, in front of rows and columns; 0 where images are stacked
MOST = 4  # branches: each addition but the last is a tensor of its own, rounded to a byte


@tvm.transform.module_pass(opt_level=0, name="SplitSums")
class SplitSums:
    """Write a sum over a few branches of an image as additions of these."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with such sums as additions; itself if it is quantized already."""
        return mod if is_quantized(mod) else rewrite_main(mod.clone(), _added)


def _added(scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
    op = operator(value)
    if op not in ("sum", "mean") or len(shape(value)) != IMAGE or dtype(value) != "float32":
        return None
    x, axis = value.args[0], _axis(value)
    if axis is None or (axis == 0 and _parts(scope, x, axis) is None):
        return None  # what is not stacked along axis 0 are images
    count = shape(x)[axis]
    if not isinstance(count, int) or not 2 <= count <= MOST:
        return Declined(f"it sums {count} branches, not 2 to {MOST}")
    first, *others = (_branch(scope, x, axis, index) for index in range(count))
    *inner, last = others
    total = functools.reduce(
        lambda sum_, branch: scope.emit("sum", relax.op.add(sum_, branch)), inner, first
    )
    y = relax.op.add(total, last)
    if op == "sum":
        return y
    return relax.op.multiply(scope.emit("total", y), relax.const(1 / count, "float32"))


def _axis(value: relax.Call) -> int | None:
    """Return the axis of branches that a reduction removes, or None."""
    rank, axes = len(shape(value.args[0])), value.attrs.axis
    if rank != IMAGE + 1 or axes is None or len(axes) != 1:
        return None
    axis = int(axes[0]) % rank
    return axis if axis in AXES else None


def _branch(scope: Scope, x: relax.Expr, axis: int, index: int) -> relax.Expr:
    """Return one branch of ``x``, without the axis of branches."""
    value, extents = scope.value(x), shape(x)
    count, dims = extents[axis], extents[:axis] + extents[axis + 1 :]
    ranks = {len(shape(factor)) for factor in value.args} if operator(value) == "multiply" else ()
    if ranks == {len(extents)} and scope.used_once(x):
        factors = [_branch(scope, factor, axis, index) for factor in value.args]
        return scope.emit("product", relax.op.multiply(*factors))
    if count == 1:  # a factor of all branches
        return _reshaped(scope, x, dims)
    parts = _parts(scope, x, axis)
    if parts is not None:
        return _reshaped(scope, parts[index], dims)
    source = value.args[0] if operator(value) == "reshape" else x
    if axis and shape(source) == (dims[0], count * dims[1], *dims[2:]):
        channels = dims[1]
        begin, step = (index * channels, 1) if axis == 1 else (index, count)
        end = begin + step * (channels - 1) + 1
        part = relax.op.strided_slice(source, [1], [begin], [end], [step])
        return scope.emit("branch", part)
    part = relax.op.strided_slice(x, [axis], [index], [index + 1])
    return _reshaped(scope, scope.emit("part", part), dims)


def _parts(scope: Scope, x: relax.Expr, axis: int) -> list[relax.Expr] | None:
    """Return the branches that a concat joins, one operand each, or None."""
    value, extents = scope.value(x), shape(x)
    if operator(value) != "concat" or int(value.attrs.axis) % len(extents) != axis:
        return None
    parts = list(value.args[0].fields[:])
    return parts if len(parts) == extents[axis] else None


def _reshaped(scope: Scope, x: relax.Expr, dims: tuple[int, ...]) -> relax.Expr:
    while operator(scope.value(x)) == "reshape":
        x = scope.value(x).args[0]
    return x if shape(x) == dims else scope.emit("branch", relax.op.reshape(x, dims))
