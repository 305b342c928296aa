"""A convolution of constants: equal to its definition, tap by tap."""

import numpy as np
import pytest

from relay_int8.numerics.convolution import convolve, convolve_transposed

pytestmark = pytest.mark.fast
RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("kernel", "strides", "padding", "dilation", "groups"),
    [
        ((1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
        ((3, 2), (2, 1), (1, 0, 2, 1), (1, 2), 1),
        ((2, 3), (1, 3), (0, 2, 1, 0), (2, 1), 2),
        ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 4),
    ],
)
def test_each_tap_is_added(kernel, strides, padding, dilation, groups):
    x = RNG.normal(size=(2, 4, 7, 8)).astype("float32")
    w = RNG.normal(size=(8, 4 // groups, *kernel)).astype("float32")
    top, left, bottom, right = padding
    padded = np.pad(x.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    found = convolve(x, w, strides=strides, padding=padding, dilation=dilation, groups=groups)
    wanted = np.zeros(found.shape)
    for o, c, i, j in np.ndindex(w.shape):
        row, column = i * dilation[0], j * dilation[1]
        channel = o // (8 // groups) * (4 // groups) + c
        part = padded[:, channel, row :: strides[0], column :: strides[1]]
        wanted[:, o] += w[o, c, i, j] * part[:, : found.shape[2], : found.shape[3]]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
    rows = (7 + top + bottom - dilation[0] * (kernel[0] - 1) - 1) // strides[0] + 1
    columns = (8 + left + right - dilation[1] * (kernel[1] - 1) - 1) // strides[1] + 1
    assert found.shape == (2, 8, rows, columns)


@pytest.mark.parametrize(
    ("kernel", "strides", "padding", "more", "dilation", "groups"),
    [
        ((1, 1), (1, 1), (0, 0, 0, 0), (0, 0), (1, 1), 1),
        ((3, 2), (2, 3), (1, 0, 2, 1), (1, 0), (1, 2), 1),
        ((4, 3), (2, 2), (1, 1, 1, 1), (0, 1), (2, 1), 2),
        ((2, 2), (2, 2), (0, 0, 0, 0), (1, 1), (1, 1), 4),
    ],
)
def test_each_pixel_is_spread(kernel, strides, padding, more, dilation, groups):
    x = RNG.normal(size=(2, 4, 3, 5)).astype("float32")
    w = RNG.normal(size=(4, 8 // groups, *kernel)).astype("float32")
    top, left, bottom, right = padding
    (rows, columns) = (
        (extent - 1) * s + d * (k - 1) + 1
        for extent, s, d, k in zip(x.shape[2:], strides, dilation, kernel, strict=True)
    )
    wanted = np.zeros((2, 8, rows + more[0], columns + more[1]))
    for c, o, i, j in np.ndindex(w.shape):
        channel = c // (4 // groups) * (8 // groups) + o
        row, column = i * dilation[0], j * dilation[1]
        part = wanted[:, channel, row:, column:]
        part[:, : 2 * strides[0] + 1 : strides[0], : 4 * strides[1] + 1 : strides[1]] += (
            x[:, c].astype("float64") * w[c, o, i, j]
        )
    found = convolve_transposed(
        x,
        w,
        strides=strides,
        padding=padding,
        output_padding=more,
        dilation=dilation,
        groups=groups,
    )
    cut = wanted[:, :, top : wanted.shape[2] - bottom, left : wanted.shape[3] - right]
    np.testing.assert_allclose(found, cut, rtol=0, atol=1e-12)
