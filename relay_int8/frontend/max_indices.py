"""Where the maximum of each pooling window lies, as unpooling layers (SegNet) want to know it.

    index = first(window) + offset(argmax of the window's taps)

Elements of an image are counted row by row, so that the offset of a tap is the same in each window.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.graph.dataflow import shape

Array = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Windows:
    """Pooling windows, by axis of an image.

    Parameters
    ----------
    sizes
        How many there are.
    kernel, strides, before, dilation
        Of the windows; ``before`` is what is padded in front.
    steps
        By how much one element along each axis raises an index.
    """

    sizes: Sequence[int]
    kernel: Sequence[int]
    strides: Sequence[int]
    before: Sequence[int]
    dilation: Sequence[int]
    steps: Sequence[int]

    @property
    def firsts(self) -> list[Array]:
        """Where the first element of each window lies along each axis; padding is negative."""
        along = zip(self.sizes, self.strides, self.before, strict=True)
        return [np.arange(size) * stride - front for size, stride, front in along]

    @property
    def taps(self) -> list[Array]:
        """How far the elements of a window are from its first along each axis."""
        along = zip(self.kernel, self.dilation, strict=True)
        return [np.arange(size) * dilation for size, dilation in along]

    def indices(self, coordinates: Sequence[Array]) -> Array:
        """Return the indices of a grid of coordinates."""
        total = np.zeros((), np.int64)
        for axis, step in zip(coordinates, self.steps, strict=True):
            total = total[..., None] + axis * step
        return total


def max_indices(emit: Emit, x: relax.Expr, windows: Windows) -> relax.Expr:
    """Return the int64 index of each window's maximum in its image; of equal ones the first.

    ``emit`` binds a step under a name; x is (n, c, ...), of one to three axes of an image.
    """
    first = relax.const(windows.indices(windows.firsts)[None, None], "int64")
    if math.prod(windows.kernel) == 1:
        return relax.op.broadcast_to(first, (*shape(x)[:2], *windows.sizes))
    return relax.op.add(emit("offset", max_offsets(emit, x, windows)), first)


def max_offsets(emit: Emit, x: relax.Expr, windows: Windows) -> relax.Expr:
    """Return how far each window's maximum is from the window's first element, int64.

    The operands are those of :func:`max_indices`.
    """
    dims, taps = shape(x), windows.taps
    sizes, strides, before = windows.sizes, windows.strides, windows.before
    ends = [int(at[-1] + tap[-1]) + 1 for at, tap in zip(windows.firsts, taps, strict=True)]
    after = [max(end - extent, 0) for end, extent in zip(ends, dims[2:], strict=True)]
    if any(before) or any(after):
        sides = [width for pair in zip(before, after, strict=True) for width in pair]
        x = emit("padded", relax.op.nn.pad(x, [0, 0, 0, 0, *sides], "constant", -math.inf))
    axes = list(range(2, len(dims)))
    columns = []
    for tap in itertools.product(*taps):
        begin = [int(offset) for offset in tap]
        end = [
            offset + (size - 1) * stride + 1
            for offset, size, stride in zip(begin, sizes, strides, strict=True)
        ]
        part = emit("tap", relax.op.strided_slice(x, axes, begin, end, list(strides)))
        columns.append(emit("column", relax.op.expand_dims(part, 2)))
    largest = emit("largest", relax.op.argmax(emit("taps", relax.op.concat(columns, 2)), 2))
    offsets = relax.const(windows.indices(taps).reshape(-1), "int64")
    return relax.op.take(offsets, largest, 0, mode="clip")
