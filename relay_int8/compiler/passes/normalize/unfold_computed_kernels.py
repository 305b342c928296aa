"""Write convolutions with computed weights as products of two activations.

    Before:  y = conv2d(x, w)                     x: (n, g * c, h, w), w: (g * o, c, kh, kw)
    After:   y = reshape(rows(w) @ columns(x))    (g, o, kh * kw * c) @ (n, g, kh * kw * c, oh * ow)

    Before:  y = conv2d_transpose(x, w, strides=s)
    After:   p = rows(w) @ columns(x);  y = strided_slice(reshape(permute_dims(reshape(p))))

Trackers correlate an image with features of another one, generators and dynamic layers make
weights from a style or from what they see. Columns are the windows of x, tap behind tap, moved as
bytes; rows are the weights in the same order. A transposed convolution of stride s has s * s
phases, as LowerTransposedConv has them; weights that a phase lacks are zero.

Place:  after CanonicalizeQdq, as weights behind a Q/DQ pair are constants; before
        CanonicalizeReshape, where permutations meet.
Exact:  the same products; of floats the order of the sum may differ.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import tvm
from tvm import IRModule, relax

from relay_int8.compiler.passes.normalize.phases import Phases, TransposedAxis, axes_of, joined
from relay_int8.graph.dataflow import arguments, operator, shape
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main

LAYOUTS = {"nn.conv2d": ("NCHW", "OIHW"), "nn.conv2d_transpose": ("NCHW", "IOHW")}
"""Convolution -> layouts of its data and weights."""


@tvm.transform.module_pass(opt_level=0, name="UnfoldComputedKernels")
class UnfoldComputedKernels:
    """Write convolutions with computed weights as products of two activations."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with products in their place; ``mod`` itself is left alone."""
        params = set(mod["main"].params)
        return rewrite_main(mod.clone(), lambda scope, value: _rewrite(scope, value, params))


@dataclass(frozen=True)
class _Windows:
    """The windows of an image: padding (top, left, bottom, right), taps and how many there are."""

    padding: Sequence[int]
    taps: Sequence[Sequence[int]]
    strides: Sequence[int]
    sizes: Sequence[int]


def _rewrite(
    scope: Scope, value: relax.Expr, params: set[relax.Var]
) -> relax.Expr | Declined | None:
    op = operator(value)
    if op not in LAYOUTS or not _is_computed(scope, value.args[1], params):
        return None
    layouts = (value.attrs.data_layout, value.attrs.kernel_layout)
    if layouts != LAYOUTS[op]:
        return Declined(f"its layouts are {' and '.join(layouts)}")
    return _convolved(scope, value) if op == "nn.conv2d" else _transposed(scope, value)


def _is_computed(scope: Scope, weight: relax.Expr, params: set[relax.Var]) -> bool:
    """Say whether weights depend on an input of the network."""
    waiting, seen = [weight], set()
    while waiting:
        value = waiting.pop()
        if value in params:
            return True
        if isinstance(value, relax.Var) and value not in seen:
            seen.add(value)
            waiting.extend(arguments(scope.value(value)))
    return False


def _convolved(scope: Scope, value: relax.Call) -> relax.Expr:
    """Return a convolution as a product."""
    attrs, (x, w) = value.attrs, value.args
    _, inputs, *kernel = shape(w)
    taps = [
        [tap * int(step) for tap in range(size)]
        for size, step in zip(kernel, attrs.dilation, strict=True)
    ]
    windows = _Windows(_ints(attrs.padding), taps, _ints(attrs.strides), shape(value)[2:])
    columns = _columns(scope, x, windows, int(attrs.groups))
    order = w if kernel == [1, 1] else scope.emit("order", relax.op.permute_dims(w, (0, 2, 3, 1)))
    depth = math.prod(kernel) * inputs
    rows = scope.emit("rows", relax.op.reshape(order, (int(attrs.groups), -1, depth)))
    product = scope.emit("product", relax.op.matmul(rows, columns))
    return relax.op.reshape(product, shape(value))


def _columns(scope: Scope, x: relax.Expr, windows: _Windows, groups: int) -> relax.Var:
    """Emit (n, groups, taps * channels of a group, windows): what each window multiplies."""
    n, channels, *_ = shape(x)
    oh, ow = windows.sizes
    if any(windows.padding):
        top, left, bottom, right = windows.padding
        x = scope.emit("pad", relax.op.nn.pad(x, [0, 0, 0, 0, top, bottom, left, right]))
    parts = []
    for at in itertools.product(*windows.taps):
        end = [
            first + (size - 1) * stride + 1
            for first, size, stride in zip(at, windows.sizes, windows.strides, strict=True)
        ]
        part = x
        if at != (0, 0) or tuple(end) != shape(x)[2:] or tuple(windows.strides) != (1, 1):
            part = relax.op.strided_slice(x, [2, 3], list(at), end, list(windows.strides))
            part = scope.emit("tap", part)
        if groups > 1:
            split = relax.op.reshape(part, (n * groups, channels // groups, oh, ow))
            part = scope.emit("group", split)
        parts.append(part)
    joined = parts[0] if len(parts) == 1 else scope.emit("taps", relax.op.concat(parts, 1))
    return scope.emit("columns", relax.op.reshape(joined, (n, groups, -1, oh * ow)))


def _transposed(scope: Scope, value: relax.Call) -> relax.Expr | Declined:
    """Return a transposed convolution as a product that gives its phases, and their rearrangement.

    Tap ``k`` belongs to phase ``k % s``; the row of x that it meets falls by one with each
    ``k // s``, its reach.
    """
    attrs, (x, w) = value.attrs, value.args
    if _ints(attrs.dilation) != [1, 1]:
        return Declined("its weights are computed and its taps apart: only dilation 1 is known")
    groups, outputs = int(attrs.groups), shape(w)[1]
    axes = axes_of(value, shape(w))
    before, after = zip(*(axis.padding for axis in axes), strict=True)
    taps = [range(axis.window - 1, -1, -1) for axis in axes]
    sizes = [axis.rows for axis in axes]
    windows = _Windows((*before, *after), taps, (1, 1), sizes)
    columns = _columns(scope, x, windows, groups)
    product = relax.op.matmul(_phase_rows(scope, w, axes, groups), columns)
    channels = shape(value)[1] * math.prod(axis.stride for axis in axes)
    image = relax.op.reshape(scope.emit("product", product), (shape(x)[0], channels, *sizes))
    return joined(scope, Phases(scope.emit("phases", image), axes, groups, groups * outputs))


def _phase_rows(
    scope: Scope, w: relax.Expr, axes: Sequence[TransposedAxis], groups: int
) -> relax.Var:
    """Emit (groups, phases * outputs, taps * inputs of a group): weights by phase and reach."""
    inputs, outputs, *_ = shape(w)
    (rows, columns), (down, right) = ([a.window for a in axes], [a.stride for a in axes])
    below, beside = (axis.window * axis.stride - axis.taps for axis in axes)
    if below or beside:
        w = scope.emit("full", relax.op.nn.pad(w, [0, 0, 0, 0, 0, below, 0, beside]))
    split = relax.op.reshape(w, (groups, inputs // groups, outputs, rows, down, columns, right))
    order = relax.op.permute_dims(scope.emit("reaches", split), (0, 4, 6, 2, 3, 5, 1))
    depth = rows * columns * inputs // groups
    flat = relax.op.reshape(scope.emit("order", order), (groups, down * right * outputs, depth))
    return scope.emit("rows", flat)


def _ints(values: Sequence[int]) -> list[int]:
    return [int(value) for value in values]
