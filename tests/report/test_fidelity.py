"""Sums that the signal-to-noise ratios rest on, worked by hand."""

import numpy as np
import pytest

from relay_int8.numerics.qparams import QParams
from relay_int8.report.fidelity import Difference

pytestmark = pytest.mark.fast


def test_images_add_up():
    difference = Difference()
    difference.add(np.array([3.0, 0.0], "float32"), np.array([3.0, 1.0], "float32"), None)
    difference.add(np.array([1.0, 0.0], "float32"), np.array([1.0, 0.0], "float32"), None)
    assert difference.snr_db == pytest.approx(10.0)
    assert difference.max_error == 1.0
    assert difference.count == 4


@pytest.mark.parametrize(
    ("zero_point", "qmin", "qmax", "dtype"),
    [(0, 0, 255, "uint8"), (0, -127, 127, "int8"), (10, 0, 255, "uint8")],
)
def test_saturated_values_are_beyond_what_the_ends_stand_for(zero_point, qmin, qmax, dtype):
    params = QParams(np.float32(0.1), zero_point, qmin, qmax, dtype)
    levels = np.array([qmin - 0.6, qmin - 0.4, qmin, zero_point, qmax, qmax + 0.4, qmax + 7])
    wanted = ((levels - zero_point) * 0.1).astype("float32")
    difference = Difference()
    difference.add(wanted, wanted, params)
    difference.add(np.float32([-np.inf]), np.float32([0]), params)  # of a mask
    assert difference.saturated == 2
    assert difference.saturation == 2 / 8


def test_what_a_mask_has_made_infinite_counts_where_the_networks_differ():
    masked, other = np.float32([-np.inf, 2, 0]), np.float32([-np.inf, 1, 0])
    same = Difference()
    same.add(masked, other, None)
    assert (same.signal, same.noise, same.max_error) == (4, 1, 1)
    apart = Difference()
    apart.add(masked, np.float32([0, 2, 0]), None)
    assert (apart.signal, apart.noise) == (4, np.inf)


def test_nothing_added():
    assert Difference().saturation == 0
