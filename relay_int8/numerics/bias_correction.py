"""Bias correction: take out of a layer's bias what rounding its weights adds to its mean output.

Rounding moves every weight a little, and where a channel has few weights (depthwise) or its inputs
are never negative (after ReLU), these moves do not average out: the channel's output is off by a
constant. With the mean of each input channel on the calibration images that constant is known::

    error[oc] = sum over (ic, i, j) of (w_dq - w)[oc, ic, i, j] * share[i, j] * mean[ic]

``share`` is the fraction of output positions at which a tap lies inside the input: padding is zero
and adds nothing. Source: Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias
Correction", ICCV 2019, section 4.2, with measured means in place of those batch norm implies.
Pure NumPy, no graph in sight.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.numerics import qparams

Array = npt.NDArray[Any]
Pair = tuple[int, int]


def corrected_bias(
    w: Array, b: Array, s_x: np.float32, mean: Array, share: Array, groups: int
) -> Array:
    """Return float32 (oc,): the bias without the mean error of the quantized weights.

    Parameters
    ----------
    w
        (oc, ic / groups, kh, kw) real weights; kernel 1 x 1 for a dense layer.
    b
        (oc,) real bias.
    s_x
        Scale of the layer's input, which bounds the weights' scale.
    mean
        (ic,) mean of each input channel in the float network.
    share
        (kh, kw): see :func:`tap_shares`.
    groups
        Of the convolution.
    """
    scales = qparams.weight_scales(w, b, s_x)
    steps = qparams.quantize_weight(w, scales).astype(np.float64)
    error = steps * scales.astype(np.float64)[:, None, None, None] - w
    by_input = (error * share).sum(axis=(2, 3)).reshape(groups, len(w) // groups, -1)
    shift = np.einsum("goi,gi->go", by_input, mean.astype(np.float64).reshape(groups, -1))
    result: Array = (b.astype(np.float64) - shift.reshape(-1)).astype(np.float32)
    return result


def tap_shares(
    size: Pair, out_size: Pair, kernel: Pair, *, strides: Pair, dilation: Pair, padding: Pair
) -> Array:
    """Return float64 (kh, kw): at which fraction of the output positions each tap is in bounds.

    Parameters
    ----------
    size, out_size
        Height and width of input and output.
    padding
        Top, left.
    """
    rows, columns = (
        _axis_shares(
            size[axis], out_size[axis], kernel[axis], strides[axis], dilation[axis], padding[axis]
        )
        for axis in (0, 1)
    )
    shares: Array = np.multiply.outer(rows, columns)
    return shares


def _axis_shares(
    size: int, out_size: int, kernel: int, stride: int, dilation: int, before: int
) -> Array:
    starts = np.arange(out_size) * stride - before
    taps = starts[:, None] + np.arange(kernel) * dilation
    shares: Array = ((taps >= 0) & (taps < size)).mean(axis=0)
    return shares
