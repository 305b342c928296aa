"""How many input positions an average-pooling window covers, per output position."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Pair = tuple[int, int]


def window_counts(
    size: Pair,
    out_size: Pair,
    kernel: Pair,
    *,
    strides: Pair = (1, 1),
    dilation: Pair = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    count_include_pad: bool = False,
) -> npt.NDArray[np.int64]:
    """Return int64 (oh, ow): what the sum of each window is divided by.

    Positions of the input count, and with ``count_include_pad`` those of the explicit padding too;
    what hangs over because of ceil_mode never does (as in ONNX and PyTorch). A window that covers
    nothing counts 1, so that its sum, zero, stays zero.

    Parameters
    ----------
    size, out_size
        Height and width of input and output; ceil_mode is in out_size.
    padding
        Top, left, bottom, right.
    """
    top, left, bottom, right = padding
    sides = ((top, bottom), (left, right))
    rows, columns = (
        _axis_counts(
            size[axis],
            out_size[axis],
            (kernel[axis], strides[axis], dilation[axis]),
            sides[axis],
            count_include_pad,
        )
        for axis in (0, 1)
    )
    counts: npt.NDArray[np.int64] = np.maximum(np.multiply.outer(rows, columns), 1)
    return counts


def _axis_counts(
    size: int, out_size: int, window: tuple[int, int, int], sides: Pair, include_pad: bool
) -> npt.NDArray[Any]:
    kernel, stride, dilation = window
    before, after = sides
    starts = np.arange(out_size, dtype=np.int64) * stride - before
    taps = starts[:, None] + np.arange(kernel, dtype=np.int64) * dilation
    low, high = (-before, size + after) if include_pad else (0, size)
    counts: npt.NDArray[Any] = np.count_nonzero((taps >= low) & (taps < high), axis=1)
    return counts
