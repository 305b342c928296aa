"""Write products as they are recognized: weights on the right, a group for each matrix of them.

    Before:  y = w @ x + b                                   w: (m, k), x: (n, k, l), b: (m, 1)
    After:   y = permute(permute(x) @ permute(w) + permute(b))

    Before:  y = x @ w                                       x: (n, g, l, k), w: (g, k, o)
    After:   y = permute(reshape(conv2d(reshape(permute(x)), w', groups=g)))

    Before:  y = x @ w                                       x: (n, g, 1, l, k), w: (g, o, k, p)
    After:   the same with o * p outputs in each group

    Before:  y = x @ w                                       w: the same matrix g times
    After:   y = x @ w[0]

    Before:  y = x @ v                                       v: (k,)
    After:   y = reshape(x @ reshape(v))                     a layer of one output

    Before:  y = v @ permute(softmax(s))
    After:   y = permute(softmax(s) @ permute(v))

So the projection of a state-space layer, and what queries make of the positions of each head, are
computed with weights, which have a scale for each output; and attention that multiplies values of
channels by keys with turned shares is recognized.

Place:  after ReplaceSplit, before CanonicalizeReshape, where permutations meet.
Exact:  the same products; of floats the order of the sum may differ.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.graph.dataflow import constant, operator, shape
from relay_int8.graph.rewriting import Scope, rewrite_main

Array = np.ndarray[Any, np.dtype[Any]]


@tvm.transform.module_pass(opt_level=0, name="CanonicalizeProduct")
class CanonicalizeProduct:
    """Write products with constants as layers: weights on the right, or a group for each matrix."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with weights as layers have them; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _rewrite)


def _rewrite(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    if operator(value) == "add":
        return _bias_inside(scope, value)
    if operator(value) != "matmul":
        return None
    left, right = (constant(arg) for arg in value.args)
    if left is not None and right is None and left.ndim >= 2 and len(shape(value.args[1])) >= 2:
        turned = scope.emit("turned", _swapped(value.args[1]))
        product = _product(scope, turned, np.swapaxes(left, -1, -2))
        return None if product is None else _swapped(scope.emit("product", product))
    if left is None and right is None:
        return _shares_on_the_left(scope, value)
    if right is not None and right.ndim == 1 and left is None and len(shape(value.args[0])) > 1:
        column = relax.const(np.ascontiguousarray(right[:, None]), str(right.dtype))
        product = scope.emit("column", relax.op.matmul(value.args[0], column))
        return relax.op.reshape(product, shape(value.args[0])[:-1])
    if right is not None and left is None and right.ndim > 2 and len(shape(value.args[0])) > 2:
        return _product(scope, value.args[0], right)
    return None


def _shares_on_the_left(scope: Scope, value: relax.Call) -> relax.Expr | None:
    """Return ``v @ p'`` as ``(p @ v')'`` where p are shares of keys: as attention is recognized."""
    v, turned = value.args
    shares = scope.value(turned)
    if operator(shares) != "permute_dims" or operator(scope.value(shares.args[0])) != "nn.softmax":
        return None
    rank = len(shape(turned))
    is_swap = [int(axis) for axis in shares.attrs.axes or ()] == _swap(rank)
    if not is_swap or len(shape(v)) != rank or not scope.used_once(turned):
        return None
    values = scope.emit("values", _swapped(v))
    return _swapped(scope.emit("product", relax.op.matmul(shares.args[0], values)))


def _product(scope: Scope, x: relax.Expr, w: Array) -> relax.Expr | None:
    """Return the product of an activation and weights of any rank, as a layer."""
    w = _distinct(w, shape(x))
    matrices = w.shape[:-2]
    rank = len(shape(x)) - len(matrices)
    if all(extent == 1 for extent in matrices):
        if rank < 2:
            return None
        return relax.op.matmul(x, relax.const(w.reshape(w.shape[-2:]), str(w.dtype)))
    *batch, length, depth = shape(x)
    if any(extent != 1 for extent in matrices[:-1]) or not batch or batch[-1] != matrices[-1]:
        return _broadcast_product(scope, x, w)
    images, groups, out = int(np.prod(batch[:-1])), batch[-1], w.shape[-1]
    columns = scope.emit("columns", _swapped(x))
    image = scope.emit("image", relax.op.reshape(columns, (images, groups * depth, 1, length)))
    kernel = np.swapaxes(w.reshape(groups, depth, out), 1, 2).reshape(groups * out, depth, 1, 1)
    weights = relax.const(np.ascontiguousarray(kernel), str(w.dtype))
    conv = scope.emit("conv", relax.op.nn.conv2d(image, weights, groups=groups))
    return _swapped(scope.emit("rows", relax.op.reshape(conv, (*batch, out, length))))


def _distinct(w: Array, dims: tuple[int, ...]) -> Array:
    """Return weights with one matrix along the axes of ``x`` on which all are the same."""
    for axis in range(-w.ndim, -2):
        first = w.take([0], axis)
        if -axis <= len(dims) and dims[axis] == w.shape[axis] and (w == first).all():
            w = first
    return w


def _broadcast_product(scope: Scope, x: relax.Expr, w: Array) -> relax.Call:
    """Return the product of matrices of an activation and of weights that broadcast to each other.

    An axis that both have is one of groups, one that weights alone have is one of outputs.
    """
    rank = max(len(shape(x)), w.ndim)
    xs = (1,) * (rank - len(shape(x))) + shape(x)
    ws = (1,) * (rank - w.ndim) + w.shape
    outer = range(rank - 2)
    images = [axis for axis in outer if ws[axis] == 1]
    groups = [axis for axis in outer if xs[axis] == ws[axis] > 1]
    outputs = [axis for axis in outer if xs[axis] == 1 < ws[axis]]
    kernel_order = [*groups, *outputs, rank - 1, rank - 2, *images]
    # Where a group comes first, the batch is among the rows, as in einsum("bixy,ioxy->boxy").
    rows = [] if 0 in groups else [rank - 2]
    images += [] if rows else [rank - 2]
    order = [*images, *groups, *outputs, rank - 1, *rows]
    depth, out = xs[-1], ws[-1]
    image_sizes, group_sizes, row_sizes = ([xs[i] for i in axes] for axes in (images, groups, rows))
    output_sizes = [*(ws[axis] for axis in outputs), out]
    aligned = x if len(shape(x)) == rank else scope.emit("aligned", relax.op.reshape(x, xs))
    columns = scope.emit("columns", relax.op.permute_dims(aligned, order))
    count = math.prod(group_sizes)
    channels = (math.prod(image_sizes), count * depth, 1, math.prod(row_sizes))
    image = scope.emit("image", relax.op.reshape(columns, channels))
    by_group = w.reshape(ws).transpose(kernel_order)
    kernel = np.ascontiguousarray(by_group.reshape(-1, depth, 1, 1))
    conv = relax.op.nn.conv2d(image, relax.const(kernel, str(w.dtype)), groups=count)
    sizes = (*image_sizes, *group_sizes, *output_sizes, *row_sizes)
    result = scope.emit("rows", relax.op.reshape(scope.emit("conv", conv), sizes))
    return relax.op.permute_dims(result, [order.index(axis) for axis in range(rank)])


def _swapped(x: relax.Expr) -> relax.Call:
    """Return ``x`` with its last two axes exchanged."""
    return relax.op.permute_dims(x, _swap(len(shape(x))))


def _swap(rank: int) -> list[int]:
    """Return the axes of a tensor, the last two exchanged."""
    return [*range(rank - 2), rank - 1, rank - 2]


def _bias_inside(scope: Scope, value: relax.Call) -> relax.Expr | None:
    """Add a number for each row of weights in front of the permutation, where a layer adds it."""
    for x, other in (value.args, reversed(value.args)):
        turned, bias = scope.value(x), constant(other)
        if bias is None or operator(turned) != "permute_dims" or not scope.used_once(x):
            continue
        product = turned.args[0]
        is_swap = shape(x) == (*shape(product)[:-2], *shape(product)[:-3:-1])
        is_product = operator(scope.value(product)) == "matmul" and is_swap
        if is_product and bias.shape[-1:] == (1,) and bias.size == shape(product)[-1]:
            numbers = relax.const(bias.reshape(-1), str(bias.dtype))
            return _swapped(scope.emit("biased", relax.op.add(product, numbers)))
    return None
