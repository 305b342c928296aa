"""Where bilinear resizes read, worked by hand."""

import numpy as np
import pytest

from relay_int8.numerics.interpolation import UNIT, axis_taps

pytestmark = pytest.mark.fast

CASES = [
    # places -0.25 0.25 0.75 1.25: the first and the last lie outside, on the rim
    (2, 4, "half_pixel", [0, 0, 0, 1], [1, 1, 1, 1], [0, 512, 1536, 0]),
    (2, 4, "asymmetric", [0, 0, 1, 1], [1, 1, 1, 1], [0, 1024, 0, 0]),
    (2, 4, "align_corners", [0, 0, 0, 1], [1, 1, 1, 1], [0, 683, 1365, 0]),  # thirds of 2048
    (3, 1, "half_pixel", [1], [2], [0]),
    (3, 1, "pytorch_half_pixel", [0], [1], [0]),
    (3, 1, "align_corners", [0], [1], [0]),
    (1, 3, "half_pixel", [0, 0, 0], [0, 0, 0], [0, 0, 0]),
    (5, 2, "half_pixel", [0, 3], [1, 4], [1536, 512]),  # places 0.75, 3.25
]


@pytest.mark.parametrize(("size", "out", "coordinates", "first", "second", "weight"), CASES)
def test_taps(size, out, coordinates, first, second, weight):
    np.testing.assert_array_equal(axis_taps(size, out, coordinates), [*first, *second, *weight])


def test_weights_round_half_to_even():
    weights = axis_taps(2, 8192 + 1, "align_corners").reshape(3, -1)[2]
    # position i / 8192 is i / 4 units
    np.testing.assert_array_equal(weights[:8], [0, 0, 0, 1, 1, 1, 2, 2])
    assert weights[8190] == UNIT  # 2047.5 rounds to even, which is all of the second pixel
    assert weights[8192] == 0  # the last place is the last pixel itself
