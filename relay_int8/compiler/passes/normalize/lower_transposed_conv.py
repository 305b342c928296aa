"""Write a transposed convolution as one convolution and a rearrangement of its result.

    Before:  y = relu(conv2d_transpose(x, w, strides=2) + b)
    After:   p = relu(conv2d(x, w') + b');  y = strided_slice(reshape(permute_dims(reshape(p)))

With stride s, the rows i of y with one remainder r = (i + padding) mod s meet taps r, r + s, ...
alone, and consecutive rows of x: a convolution of ceil(k / s) taps, turned round. The s * s phases
read the same windows, so that they are the output channels of one convolution, ordered (group,
row phase, column phase, channel); nothing multiplies the zeros between the pixels. A phase
that has fewer taps than another has zeros at the end.

What follows element by element (bias, activation, batch norm, quantize) moves in front of the
rearrangement, into the epilogue of the convolution. Weights of an imported quantized model keep
their integers. Over videos it is the same with a third axis, and s * s * s phases.

Place:  of images after FoldAffine and LowerBatchNorm, last of normalize; of videos before
        CanonicalizeVideo, which writes convolutions over videos as ones over frames.
Exact:  the same products; of floats the order of the sum may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.compiler.passes.normalize.image_views import batch_norm_of
from relay_int8.compiler.passes.normalize.phases import Phases, TransposedAxis, axes_of, joined
from relay_int8.compiler.passes.normalize.weight_pair import weight_pair
from relay_int8.graph.dataflow import constant, operator, shape, with_arguments
from relay_int8.graph.declined import Declined
from relay_int8.graph.group import Weight
from relay_int8.graph.rewriting import Scope, rewrite_main

Array = np.ndarray[Any, np.dtype[Any]]
ACTIVATIONS = ("nn.relu", "clip", "nn.leakyrelu", "maximum", "minimum")
MOVED = (*ACTIVATIONS, "quantize", "add", "nn.prelu")
"""Operators that move in front of the rearrangement."""
LAYOUTS = {2: ("NCHW", "IOHW"), 3: ("NCDHW", "IODHW")}
"""Number of axes of an image or a video -> layouts of its data and weights."""


@tvm.transform.module_pass(opt_level=0, name="LowerTransposedConv")
class LowerTransposedConv:
    """Write a transposed convolution as one convolution and a rearrangement of its result.

    Parameters
    ----------
    axes
        Of what is convolved: 2 of images, 3 of videos.
    """

    def __init__(self, axes: int = 2) -> None:
        self._axes = axes

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` without transposed convolutions; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _Lowering(self._axes).rewrite)


class _Lowering:
    def __init__(self, axes: int) -> None:
        self._transposed = f"nn.conv{axes}d_transpose"
        self._rank = 2 + axes
        self._phases: dict[relax.Expr, Phases] = {}

    def rewrite(self, scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
        """Return the joined phases in the place of ``value``, or keep it."""
        op = operator(value)
        phases: Phases | Declined | None
        if op == self._transposed:
            phases = _convolved(scope, value)
        elif isinstance(value, relax.TupleGetItem):
            phases = self._normalized(scope, value)
        else:
            phases = self._continued(scope, op, value)
        if not isinstance(phases, Phases):
            return phases
        y = joined(scope, phases)
        if op == "quantize":
            return relax.op.quantize(y, *value.args[1:], 1, str(value.attrs.out_dtype))
        self._phases[y] = phases
        return y

    def _continued(self, scope: Scope, op: str, value: relax.Expr) -> Phases | Declined | None:
        """Return the phases after an operator that computes each element by itself."""
        if not isinstance(value, relax.Call):
            return None
        position = next((i for i, arg in enumerate(value.args) if arg in self._phases), None)
        if position is None or op not in MOVED:
            return None
        y = value.args[position]
        if not scope.used_once(y):
            return Declined(f"it stays behind {y.name}, which something else reads too")
        phases = self._phases[y]
        args = _spread_arguments(phases, op, value, position)
        if isinstance(args, Declined):
            return args
        args[position] = phases.var
        moved = with_arguments(value, args)
        var = scope.emit("phases", moved)
        if op == "quantize":  # integers are moved as the reals they stand for
            var = scope.emit("dq", relax.op.dequantize(var, *value.args[1:], 1))
        return replace(phases, var=var)

    def _normalized(self, scope: Scope, value: relax.TupleGetItem) -> Phases | None:
        """Return the phases after a batch norm with constants."""
        norm = batch_norm_of(scope, value, self._rank)
        if norm is None or norm.args[0] not in self._phases or int(norm.attrs.axis) != 1:
            return None
        arrays = [constant(arg) for arg in norm.args[1:]]
        if not scope.used_once(norm.args[0]) or any(array is None for array in arrays):
            return None
        phases = self._phases[norm.args[0]]
        spread = [relax.const(phases.spread(a), str(a.dtype)) for a in arrays if a is not None]
        call = with_arguments(norm, [phases.var, *spread])
        item = relax.TupleGetItem(scope.emit("batch_norm", call), 0)
        return replace(phases, var=scope.emit("phases", item))


def _spread_arguments(
    phases: Phases, op: str, value: relax.Call, position: int
) -> list[relax.Expr] | Declined:
    """Return the arguments of an operator on the phases, if it can move there."""
    args, y = list(value.args), value.args[position].name
    if op in ACTIVATIONS:
        others = [constant(arg) for i, arg in enumerate(args) if i != position and op != "clip"]
        if all(o is not None and o.size == 1 for o in others):
            return args
        return Declined(f"it stays behind {y}: its bound is not one constant number")
    if op == "quantize":
        scale = constant(args[1])
        if scale is not None and scale.size == 1:
            return args
        return Declined(f"it stays behind {y}: it has not one constant scale")
    by_channel = constant(args[1 - position])
    if by_channel is None:
        return Declined(f"it stays behind {y}: its other operand is no constant")
    ones = (1,) * len(phases.axes)
    in_place = op != "add" or by_channel.shape[-1 - len(ones) :] == (phases.channels, *ones)
    if by_channel.size != 1 and (by_channel.size != phases.channels or not in_place):
        return Declined(
            f"it stays behind {y}: its constant {by_channel.shape} is not one number for each of "
            f"{phases.channels} channels"
        )
    full = np.broadcast_to(by_channel.reshape(-1), (phases.channels,))
    dims = (1, -1, *ones) if op == "add" else (-1,)
    args[1 - position] = relax.const(phases.spread(full).reshape(dims), str(by_channel.dtype))
    return args


def _convolved(scope: Scope, value: relax.Call) -> Phases | Declined:
    """Emit the convolution that gives the phases of one with constant weights."""
    attrs, weights = value.attrs, _weights(scope, value.args[1])
    layouts = attrs.data_layout, attrs.kernel_layout
    if weights is None:
        return Declined(f"its weights {value.args[1].name} are no constant")
    wanted = LAYOUTS[len(shape(value)) - 2]
    if layouts != wanted:
        return Declined(f"its layouts are {' and '.join(layouts)}, not {' and '.join(wanted)}")
    w, scale, zero = weights.values, weights.scale, weights.zero_point
    axes = axes_of(value, w.shape)
    groups = int(attrs.groups)
    turned = _turned(w, groups, axes)
    phases = Phases(value.args[0], axes, groups, groups * w.shape[1])
    kernel: relax.Expr = relax.const(turned, str(w.dtype))
    if scale is not None and zero is not None:
        scales, zeros = (
            phases.spread(each if each.size == phases.channels else np.tile(each, groups))
            for each in (scale, zero)
        )
        pair = weight_pair(scope, turned, scales.astype(np.float32), 0, zeros.astype(zero.dtype))
        kernel = scope.emit("weight", pair)
    before, after = zip(*(axis.padding for axis in axes), strict=True)
    convolve = relax.op.nn.conv2d if len(axes) == 2 else relax.op.nn.conv3d
    conv = convolve(
        value.args[0],
        kernel,
        padding=(*before, *after),
        dilation=[axis.dilation if axis.is_dilated else 1 for axis in axes],
        groups=groups,
    )
    return replace(phases, var=scope.emit("conv", conv))


def _weights(scope: Scope, value: relax.Expr) -> Weight | None:
    """Return constant weights, plain or behind a Q/DQ pair, or None."""
    w = constant(value)
    if w is not None:
        return Weight(w)
    dequantize = scope.value(value)
    quantize = scope.value(dequantize.args[0]) if operator(dequantize) == "dequantize" else value
    if operator(quantize) != "quantize":
        return None
    w, scale, zero = (constant(argument) for argument in quantize.args)
    return None if w is None or scale is None or zero is None else Weight(w, scale, zero)


def _turned(w: Array, groups: int, axes: Sequence[TransposedAxis]) -> Array:
    """Return weights (I, O, taps ...) as those of the phases, (O, I, window ...)."""
    inputs, outputs, *taps = w.shape
    grouped = w.reshape(groups, inputs // groups, outputs, *taps).swapaxes(1, 2)
    strides, windows = [axis.stride for axis in axes], [axis.window for axis in axes]
    turned = np.zeros((groups, *strides, outputs, inputs // groups, *windows), w.dtype)
    for tap in np.ndindex(*taps):
        phase, at = zip(*(axis.tap(k) for axis, k in zip(axes, tap, strict=True)), strict=True)
        turned[(slice(None), *phase, ..., *at)] = grouped[(..., *tap)]
    return turned.reshape(-1, inputs // groups, *windows)
