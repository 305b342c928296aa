"""Weights of adaptive pooling: windows may overlap, and differ by a pixel."""

import numpy as np
import pytest

from relay_int8.numerics.window_means import mean_weights

pytestmark = pytest.mark.fast
THIRD = np.float32(1 / 3)
CASES = {
    "even": (4, 2, [[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]),
    "overlapping": (5, 2, [[THIRD, THIRD, THIRD, 0, 0], [0, 0, THIRD, THIRD, THIRD]]),
    "repeated": (1, 2, [[1], [1]]),
    "one": (3, 1, [[THIRD] * 3]),
}


@pytest.mark.parametrize("case", CASES)
def test_windows(case):
    size, wanted, weights = CASES[case]
    np.testing.assert_array_equal(mean_weights(size, wanted), np.array(weights, "float32"))
