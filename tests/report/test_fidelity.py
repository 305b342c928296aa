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
    ("zero_point", "qmin", "qmax", "dtype", "saturation"),
    [
        (0, 0, 255, "uint8", 0.2),  # zero of a ReLU is no saturation
        (0, -127, 127, "int8", 0.4),
        (10, 0, 255, "uint8", 0.4),
    ],
)
def test_saturation(zero_point, qmin, qmax, dtype, saturation):
    params = QParams(np.float32(0.1), zero_point, qmin, qmax, dtype)
    q = np.array([qmin, zero_point, zero_point + 1, qmax - 1, qmax])
    found = (q - zero_point).astype("float32") * params.scale
    difference = Difference()
    difference.add(found, found, params)
    assert difference.saturation == pytest.approx(saturation)
    assert difference.snr_db == float("inf")


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
