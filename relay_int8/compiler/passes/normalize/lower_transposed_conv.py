"""Write a transposed convolution as one convolution and a rearrangement of its result.

    Before:  y = relu(conv2d_transpose(x, w, strides=2) + b)
    After:   p = relu(conv2d(x, w') + b');  y = strided_slice(reshape(permute_dims(reshape(p)))

With stride s, the rows i of y with one remainder r = (i + padding) mod s meet taps r, r + s, ...
alone, and consecutive rows of x: a convolution of ceil(k / s) taps, turned round. The s * s phases
read the same windows, so that they are the output channels of one convolution, ordered (group,
row phase, column phase, channel); nothing multiplies the zeros between the pixels. A phase
that has fewer taps than another has zeros at the end.

What follows element by element (bias, activation, quantize) moves in front of the rearrangement,
into the epilogue of the convolution. Weights of an imported quantized model keep their integers.

Place:  after FoldAffine and LowerBatchNorm, last of normalize.
Exact:  the same products; of floats the order of the sum may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.compiler.passes.normalize.weight_pair import weight_pair
from relay_int8.graph.dataflow import constant, operator, shape
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main

Array = np.ndarray[Any, np.dtype[Any]]
ACTIVATIONS = ("nn.relu", "clip", "nn.leakyrelu", "maximum", "minimum")
MOVED = (*ACTIVATIONS, "quantize", "add", "nn.prelu")
"""Operators that move in front of the rearrangement."""


@tvm.transform.module_pass(opt_level=0, name="LowerTransposedConv")
class LowerTransposedConv:
    """Write a transposed convolution as one convolution and a rearrangement of its result."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` without transposed convolutions; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _Lowering().rewrite)


@dataclass(frozen=True)
class TransposedAxis:
    """One axis of a transposed convolution: tap k adds x[i] to y[stride * i + dilation * k]."""

    size: int
    out: int
    taps: int
    stride: int
    dilation: int
    before: int

    @property
    def is_dilated(self) -> bool:
        """Whether the convolution is dilated instead of this one's taps being spread by zeros."""
        return self.stride == 1

    @property
    def window(self) -> int:
        """Taps of the convolution."""
        reach = self.dilation * (self.taps - 1) // self.stride
        return self.taps if self.is_dilated else reach + 1

    @property
    def span(self) -> int:
        """Rows of x that a window covers."""
        return self.dilation * (self.taps - 1) + 1 if self.is_dilated else self.window

    @property
    def first(self) -> int:
        """The first row of the convolution, in steps of the stride, that holds rows of y."""
        return min(self.before // self.stride, self.span - 1)

    @property
    def padding(self) -> tuple[int, int]:
        """Zeros before and after x."""
        before = self.span - 1 - self.first
        rows = -(-(self.before + self.out) // self.stride) - self.first
        return before, max(rows + self.span - 1 - self.size - before, 0)

    @property
    def rows(self) -> int:
        """Rows that the convolution gives."""
        return self.size + sum(self.padding) - self.span + 1

    @property
    def crop(self) -> int:
        """Rows that are cut off before y."""
        return self.before - self.stride * self.first

    def tap(self, k: int) -> tuple[int, int]:
        """Return phase and window position of tap ``k``."""
        if self.is_dilated:
            return 0, self.window - 1 - k
        reach, phase = divmod(self.dilation * k, self.stride)
        return phase, self.window - 1 - reach


@dataclass(frozen=True)
class Phases:
    """A tensor that holds the phases of y as channels, and how y comes of it."""

    var: relax.Var
    rows: TransposedAxis
    columns: TransposedAxis
    groups: int
    channels: int

    def spread(self, by_channel: Array) -> Array:
        """Return numbers of the channels of y as those of the channels of ``var``."""
        phases = self.rows.stride * self.columns.stride
        grouped = by_channel.reshape(self.groups, 1, -1)
        return np.ascontiguousarray(grouped.repeat(phases, 1).reshape(-1))


class _Lowering:
    def __init__(self) -> None:
        self._phases: dict[relax.Expr, Phases] = {}

    def rewrite(self, scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
        """Return the joined phases in the place of ``value``, or keep it."""
        op = operator(value)
        phases: Phases | Declined | None
        if op == "nn.conv2d_transpose":
            phases = _convolved(scope, value)
        else:
            phases = self._continued(scope, op, value)
        if not isinstance(phases, Phases):
            return phases
        y = _joined(scope, phases)
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
        moved = relax.Call(value.op, args, value.attrs, value.ty_args)
        var = scope.emit("phases", moved)
        if op == "quantize":  # integers are moved as the reals they stand for
            var = scope.emit("dq", relax.op.dequantize(var, *value.args[1:], 1))
        return Phases(var, phases.rows, phases.columns, phases.groups, phases.channels)


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
    in_place = op != "add" or by_channel.shape[-3:] == (phases.channels, 1, 1)
    if by_channel.size != 1 and (by_channel.size != phases.channels or not in_place):
        return Declined(
            f"it stays behind {y}: its constant {by_channel.shape} is not one number for each of "
            f"{phases.channels} channels"
        )
    full = np.broadcast_to(by_channel.reshape(-1), (phases.channels,))
    dims = (1, -1, 1, 1) if op == "add" else (-1,)
    args[1 - position] = relax.const(phases.spread(full).reshape(dims), str(by_channel.dtype))
    return args


def _convolved(scope: Scope, value: relax.Call) -> Phases | Declined:
    """Emit the convolution that gives the phases of one with constant weights."""
    attrs, weights = value.attrs, _weights(scope, value.args[1])
    layouts = attrs.data_layout, attrs.kernel_layout
    if weights is None:
        return Declined(f"its weights {value.args[1].name} are no constant")
    if layouts != ("NCHW", "IOHW"):
        return Declined(f"its layouts are {' and '.join(layouts)}, not NCHW and IOHW")
    w, scale = weights
    rows, columns = _axes(value, w.shape)
    groups = int(attrs.groups)
    turned = _turned(w, groups, rows, columns)
    phases = Phases(value.args[0], rows, columns, groups, groups * w.shape[1])
    kernel: relax.Expr = relax.const(turned, str(w.dtype))
    if scale is not None:
        per_channel = scale if scale.size == phases.channels else np.tile(scale, groups)
        scales = phases.spread(per_channel).astype(np.float32)
        kernel = scope.emit("weight", weight_pair(scope, turned, scales, 0))
    (top, bottom), (left, right) = rows.padding, columns.padding
    dilation = [axis.dilation if axis.is_dilated else 1 for axis in (rows, columns)]
    conv = relax.op.nn.conv2d(
        value.args[0], kernel, padding=(top, left, bottom, right), dilation=dilation, groups=groups
    )
    return Phases(scope.emit("conv", conv), rows, columns, groups, phases.channels)


def _axes(value: relax.Call, w_shape: Sequence[int]) -> tuple[TransposedAxis, TransposedAxis]:
    attrs, sizes, outs = value.attrs, shape(value.args[0])[2:], shape(value)[2:]
    rows, columns = (
        TransposedAxis(
            size=int(sizes[i]),
            out=int(outs[i]),
            taps=int(w_shape[2 + i]),
            stride=int(attrs.strides[i]),
            dilation=int(attrs.dilation[i]),
            before=int(attrs.padding[i]),
        )
        for i in (0, 1)
    )
    return rows, columns


def _weights(scope: Scope, value: relax.Expr) -> tuple[Array, Array | None] | None:
    """Return constant weights and, where a Q/DQ pair holds them, their scales; else None."""
    w = constant(value)
    if w is not None:
        return w, None
    dequantize = scope.value(value)
    quantize = scope.value(dequantize.args[0]) if operator(dequantize) == "dequantize" else value
    if operator(quantize) != "quantize":
        return None
    w, scale = constant(quantize.args[0]), constant(quantize.args[1])
    return None if w is None or scale is None else (w, scale)


def _turned(w: Array, groups: int, rows: TransposedAxis, columns: TransposedAxis) -> Array:
    """Return IOHW weights as those of the phases, OIHW."""
    inputs, outputs, kh, kw = w.shape
    grouped = w.reshape(groups, inputs // groups, outputs, kh, kw).swapaxes(1, 2)
    dims = (groups, rows.stride, columns.stride, outputs, inputs // groups)
    turned = np.zeros((*dims, rows.window, columns.window), w.dtype)
    for i in range(kh):
        for j in range(kw):
            (row, at), (column, beside) = rows.tap(i), columns.tap(j)
            turned[:, row, column, :, :, at, beside] = grouped[..., i, j]
    return turned.reshape(-1, inputs // groups, rows.window, columns.window)


def _joined(scope: Scope, phases: Phases) -> relax.Var:
    """Emit y: phases become rows and columns, what lies in the padding is cut off."""
    rows, columns, p = phases.rows, phases.columns, phases.var
    y: relax.Expr = p
    n, last = shape(p)[0], (phases.channels, rows.rows * rows.stride, columns.rows * columns.stride)
    if rows.stride * columns.stride > 1:
        inner = phases.channels // phases.groups
        strides = (phases.groups, rows.stride, columns.stride, inner, rows.rows, columns.rows)
        digits = scope.emit("digits", relax.op.reshape(p, (n, *strides)))
        turned = scope.emit("turned", relax.op.permute_dims(digits, (0, 1, 4, 5, 2, 6, 3)))
        y = relax.op.reshape(turned, (n, *last))
    if (rows.out, columns.out) != last[1:]:
        whole = scope.emit("whole", y) if y is not p else p
        begin = (rows.crop, columns.crop)
        end = (rows.crop + rows.out, columns.crop + columns.out)
        y = relax.op.strided_slice(whole, [2, 3], begin, end)
    return p if y is p else scope.bind(scope.name, y)
