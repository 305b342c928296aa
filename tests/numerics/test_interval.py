"""Wilson's interval by what defines it: its ends are z of their own deviations from the share."""

import math

import pytest

from relay_int8.numerics.interval import Z_95, wilson

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(("right", "count"), [(118, 200), (1, 7), (499, 500), (10, 20)])
def test_ends_are_z_deviations_away(right, count):
    share = right / count
    low, high = wilson(share, count)
    assert 0 < low < share < high < 1
    for end in (low, high):
        assert abs(share - end) == pytest.approx(Z_95 * math.sqrt(end * (1 - end) / count))


@pytest.mark.parametrize("count", [1, 200])
def test_all_right_or_none_is_no_point(count):
    assert wilson(0.0, count) == pytest.approx((0, Z_95**2 / (count + Z_95**2)))
    assert wilson(1.0, count) == pytest.approx((count / (count + Z_95**2), 1))
    assert wilson(0.0, count)[0] >= 0 and wilson(1.0, count)[1] <= 1
