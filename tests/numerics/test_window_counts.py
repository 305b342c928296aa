"""Divisors of average pooling, by hand and by a loop over positions."""

import itertools

import numpy as np
import pytest

from relay_int8.numerics.window_counts import window_counts

pytestmark = pytest.mark.fast


def test_padding_left_out():
    found = window_counts((4, 4), (2, 2), (3, 3), strides=(2, 2), padding=(1, 1, 0, 0))
    np.testing.assert_array_equal(found, [[4, 6], [6, 9]])


def test_padding_counted():
    found = window_counts(
        (4, 4), (2, 2), (3, 3), strides=(2, 2), padding=(1, 1, 0, 0), count_include_pad=True
    )
    np.testing.assert_array_equal(found, [[9, 9], [9, 9]])


@pytest.mark.parametrize("include", [False, True])
def test_what_ceil_mode_hangs_over_never_counts(include):
    found = window_counts((5, 5), (3, 3), (2, 2), strides=(2, 2), count_include_pad=include)
    np.testing.assert_array_equal(found, [[4, 4, 2], [4, 4, 2], [2, 2, 1]])


def test_a_window_of_nothing_counts_one():
    found = window_counts((2, 2), (3, 1), (1, 2), strides=(1, 1), padding=(1, 0, 0, 0))
    np.testing.assert_array_equal(found, [[1], [2], [2]])


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize(
    ("size", "out_size", "kernel", "strides", "dilation", "padding"),
    [
        ((7, 5), (4, 3), (3, 2), (2, 2), (1, 1), (1, 0, 2, 1)),
        ((6, 9), (3, 4), (3, 3), (2, 2), (2, 1), (2, 1, 2, 1)),
        ((3, 3), (1, 1), (3, 3), (1, 1), (1, 1), (0, 0, 0, 0)),
    ],
)
def test_equals_a_loop(size, out_size, kernel, strides, dilation, padding, include):
    top, left, bottom, right = padding
    expected = np.zeros(out_size, np.int64)
    for oh, ow, kh, kw in itertools.product(*map(range, (*out_size, *kernel))):
        y = oh * strides[0] - top + kh * dilation[0]
        x = ow * strides[1] - left + kw * dilation[1]
        inside = 0 <= y < size[0] and 0 <= x < size[1]
        padded = -top <= y < size[0] + bottom and -left <= x < size[1] + right
        expected[oh, ow] += padded if include else inside
    found = window_counts(
        size,
        out_size,
        kernel,
        strides=strides,
        dilation=dilation,
        padding=padding,
        count_include_pad=include,
    )
    np.testing.assert_array_equal(found, expected)
