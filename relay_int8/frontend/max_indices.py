"""Where the maximum of each pooling window lies, as unpooling layers (SegNet) want to know it.

    index = first(window) + offset(argmax of the window's taps)

Elements of an image are counted row by row, so that the offset of a tap is the same in each window.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.graph.dataflow import shape

Array = np.ndarray[Any, np.dtype[np.int64]]
Emit = Callable[[str, relax.Expr], relax.Expr]


def max_indices(
    emit: Emit,
    x: relax.Expr,
    sizes: Sequence[int],
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    before: Sequence[int],
    dilation: Sequence[int],
    steps: Sequence[int],
) -> relax.Expr:
    """Return the int64 index of each window's maximum in its image; of equal ones the first.

    The operands are those of :func:`max_offsets`.
    """
    firsts = [
        np.arange(size) * stride - front
        for size, stride, front in zip(sizes, strides, before, strict=True)
    ]
    first = relax.const(_indices(firsts, steps)[None, None], "int64")
    if math.prod(kernel) == 1:
        return relax.op.broadcast_to(first, (*shape(x)[:2], *sizes))
    offsets = max_offsets(
        emit,
        x,
        sizes,
        kernel=kernel,
        strides=strides,
        before=before,
        dilation=dilation,
        steps=steps,
    )
    return relax.op.add(emit("offset", offsets), first)


def max_offsets(
    emit: Emit,
    x: relax.Expr,
    sizes: Sequence[int],
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    before: Sequence[int],
    dilation: Sequence[int],
    steps: Sequence[int],
) -> relax.Expr:
    """Return how far each window's maximum is from the window's first element, int64.

    Parameters
    ----------
    emit
        Binds a step under a name.
    x
        (n, c, ...), one to three axes of an image.
    sizes
        Windows along each axis.
    kernel, strides, before, dilation
        Of the windows, by axis; ``before`` is what is padded in front.
    steps
        By how much one element along each axis raises an index.
    """
    dims = shape(x)
    taps = [np.arange(k) * d for k, d in zip(kernel, dilation, strict=True)]
    ends = [
        (size - 1) * stride - front + int(tap[-1]) + 1
        for size, stride, front, tap in zip(sizes, strides, before, taps, strict=True)
    ]
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
    offsets = relax.const(_indices(taps, steps).reshape(-1), "int64")
    return relax.op.take(offsets, largest, 0, mode="clip")


def _indices(coordinates: Sequence[Array], steps: Sequence[int]) -> Array:
    """Return the indices of a grid of coordinates."""
    total = np.zeros((), np.int64)
    for axis, step in zip(coordinates, steps, strict=True):
        total = total[..., None] + axis * step
    return total
