"""The phases of a transposed convolution: where each row of its result comes from.

Rows ``i`` of one remainder ``(i + padding) mod stride`` are a phase: they meet the same taps alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.graph.dataflow import shape
from relay_int8.graph.rewriting import Scope

Array = np.ndarray[Any, np.dtype[Any]]


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
    axes: tuple[TransposedAxis, ...]
    groups: int
    channels: int

    @property
    def count(self) -> int:
        """How many phases there are."""
        return math.prod(axis.stride for axis in self.axes)

    def spread(self, by_channel: Array) -> Array:
        """Return numbers of the channels of y as those of the channels of ``var``."""
        grouped = by_channel.reshape(self.groups, 1, -1)
        return np.ascontiguousarray(grouped.repeat(self.count, 1).reshape(-1))


def axes_of(value: relax.Call, w_shape: Sequence[int]) -> tuple[TransposedAxis, ...]:
    """Return the axes of a transposed convolution with weights (I, O, taps ...)."""
    attrs, sizes, outs = value.attrs, shape(value.args[0])[2:], shape(value)[2:]
    return tuple(
        TransposedAxis(
            size=int(sizes[i]),
            out=int(outs[i]),
            taps=int(w_shape[2 + i]),
            stride=int(attrs.strides[i]),
            dilation=int(attrs.dilation[i]),
            before=int(attrs.padding[i]),
        )
        for i in range(len(sizes))
    )


def joined(scope: Scope, phases: Phases) -> relax.Var:
    """Emit y: phases become rows and columns, what lies in the padding is cut off."""
    axes, p = phases.axes, phases.var
    y: relax.Expr = p
    n, count = shape(p)[0], len(axes)
    last = (phases.channels, *(axis.rows * axis.stride for axis in axes))
    if phases.count > 1:
        inner = phases.channels // phases.groups
        strides, rows = [axis.stride for axis in axes], [axis.rows for axis in axes]
        split = relax.op.reshape(p, (n, phases.groups, *strides, inner, *rows))
        digits = scope.emit("digits", split)
        pairs = [axis for i in range(count) for axis in (3 + count + i, 2 + i)]
        turned = scope.emit("turned", relax.op.permute_dims(digits, (0, 1, 2 + count, *pairs)))
        y = relax.op.reshape(turned, (n, *last))
    if tuple(axis.out for axis in axes) != last[1:]:
        whole = scope.emit("whole", y) if y is not p else p
        begin = [axis.crop for axis in axes]
        end = [axis.crop + axis.out for axis in axes]
        y = relax.op.strided_slice(whole, list(range(2, 2 + count)), begin, end)
    return p if y is p else scope.bind(scope.name, y)
