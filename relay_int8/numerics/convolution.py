"""Convolutions of images in double precision: of constants, which no kernel needs to compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view


def convolve(
    x: np.ndarray,
    w: np.ndarray,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> np.ndarray:
    """Return float64 (n, oc, oh, ow) of images (n, c, h, w) and weights (oc, c / groups, kh, kw).

    Parameters
    ----------
    x, w
        Images and weights.
    strides, dilation
        Of rows and columns.
    padding
        Zeros above, on the left, below and on the right.
    groups
        How many groups of channels there are.
    """
    top, left, bottom, right = padding
    n, channels = x.shape[:2]
    padded = np.pad(x.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:], strict=True)]
    windows = sliding_window_view(padded, spans, axis=(2, 3))
    taps = windows[:, :, :: strides[0], :: strides[1], :: dilation[0], :: dilation[1]]
    grouped = taps.reshape(n, groups, channels // groups, *taps.shape[2:])
    kernels = w.astype("float64").reshape(groups, -1, *w.shape[1:])
    y: np.ndarray = np.einsum("ngchwij,gocij->ngohw", grouped, kernels, optimize=True)
    return y.reshape(n, len(w), *taps.shape[2:4])


def convolve_transposed(
    x: np.ndarray,
    w: np.ndarray,
    *,
    strides: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> np.ndarray:
    """Return float64 (n, oc, oh, ow) of images (n, c, h, w) and weights (c, oc / groups, kh, kw).

    Parameters
    ----------
    x, w
        Images and weights.
    strides, dilation
        Of rows and columns of the result.
    padding
        Rows and columns cut off above, on the left, below and on the right.
    output_padding
        Rows and columns more, below and on the right.
    groups
        How many groups of channels there are.
    """
    n, channels, height, width = x.shape
    spread_shape = ((height - 1) * strides[0] + 1, (width - 1) * strides[1] + 1)
    spread = np.zeros((n, channels, *spread_shape))
    spread[:, :, :: strides[0], :: strides[1]] = x
    by_group = w.reshape(groups, channels // groups, *w.shape[1:]).swapaxes(1, 2)
    kernels = by_group.reshape(-1, channels // groups, *w.shape[2:])[:, :, ::-1, ::-1]
    rows, columns = (d * (k - 1) for d, k in zip(dilation, w.shape[2:], strict=True))
    border = (rows, columns, rows + output_padding[0], columns + output_padding[1])
    y = convolve(spread, kernels, strides=(1, 1), padding=border, dilation=dilation, groups=groups)
    top, left, bottom, right = padding
    return y[:, :, top : y.shape[2] - bottom, left : y.shape[3] - right]
