"""What counts say of a range, against quantizing the values themselves."""

import numpy as np
import pytest

from relay_int8.calibration import Grid, Histogram, Range
from relay_int8.calibration.predicted import cut_share, integer_counts, predicted_snr_db
from relay_int8.numerics.qparams import activation

pytestmark = pytest.mark.fast


def counted(scheme, low, high):
    """Return values, their histogram and the parameters of a range."""
    values = np.random.default_rng(1).laplace(size=20_000).astype(np.float32)
    values = np.maximum(values, {"u8": 0, "s8": -99, "asymmetric": -1}[scheme]).astype(np.float32)
    grid = Grid.over(Range(values.min(), values.max(), 1), scheme != "asymmetric", 2048)
    return values, Histogram.of(values, grid), activation(scheme, low, high)


RANGES = [("u8", 0, 4.0), ("u8", 0, 99.0), ("s8", -3.0, 3.0), ("asymmetric", -1.0, 4.0)]


@pytest.mark.parametrize(("scheme", "low", "high"), RANGES)
def test_the_noise_is_that_of_the_values(scheme, low, high):
    values, histogram, params = counted(scheme, low, high)
    q = np.clip(np.rint(values / params.scale) + params.zero_point, params.qmin, params.qmax)
    error = values - params.scale * (q - params.zero_point)
    exact = 10 * np.log10(np.sum(values.astype(float) ** 2) / np.sum(error.astype(float) ** 2))
    assert predicted_snr_db(histogram, params) == pytest.approx(exact, abs=0.2)


@pytest.mark.parametrize(("scheme", "low", "high"), RANGES)
def test_values_beyond_the_range_are_counted(scheme, low, high):
    values, histogram, params = counted(scheme, low, high)
    beyond = np.mean((values > high) | (values < low))
    assert cut_share(histogram, params) == pytest.approx(beyond, abs=5e-4)
    assert (beyond > 0) == (high < 9)


def test_every_value_becomes_one_integer_by_hand():
    grid = Grid(np.float32(0), np.float32(8), True, 8)  # bins of 1, middles 0 (not 0.5), 1.5, ...
    histogram = Histogram(grid, np.array([5, 1, 0, 2, 0, 0, 0, 3]))
    integers, counts = integer_counts(histogram, activation("s8", -4.0, 4.0))  # scale 4 / 127
    assert list(integers) == list(range(128))
    assert {int(q): int(n) for q, n in zip(integers, counts, strict=True) if n} == {
        0: 5,
        48: 1,  # 1.5 / scale = 47.6
        111: 2,  # 3.5 / scale = 111.1
        127: 3,
    }


def test_nothing_but_zeros_has_no_ratio():
    grid = Grid(np.float32(0), np.float32(1), True, 4)
    params = activation("u8", 0, 1)
    assert predicted_snr_db(Histogram(grid, np.array([9, 0, 0, 0])), params) is None
    assert cut_share(Histogram(grid, np.zeros(4, np.int64)), params) == 0
