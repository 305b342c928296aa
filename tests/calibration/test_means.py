"""Channel means: exact, the same in any order, and equal to what the kernels report."""

from fractions import Fraction

import numpy as np
import pytest

from relay_int8.calibration.means import ChannelMeans
from relay_int8.calibration.network import CalibrationNetwork
from relay_int8.numerics.channel_means import LAST_AXIS
from relay_int8.quantization.refine.float_tensors import FloatTensors, KnownRunner
from relay_int8.quantization.refine.network import NumpyNetwork
from schedules.targets import native_target
from tests.calibration.array_runner import ArrayRunner, channel_means
from tests.small_networks import NetworkWriter

F = np.float32
pytestmark = pytest.mark.fast


def total(rows):
    sums = ChannelMeans.of(rows[0])
    for row in rows[1:]:
        sums = sums.merge(ChannelMeans.of(row))
    return sums


def any_floats(count):
    """Return finite float32 of every magnitude."""
    bits = np.random.default_rng(0).integers(0, 2**32, count, dtype=np.uint32)
    return np.where(np.isfinite(bits.view(F)), bits.view(F), F(0))


def test_the_mean_is_the_rounded_exact_one():
    rows = any_floats(70 * 12).reshape(70, 12)
    exact = [float(sum(map(Fraction, map(float, column))) / 70) for column in rows.T]
    np.testing.assert_array_equal(total(rows).mean(), np.array(exact, F))


def test_order_and_grouping_do_not_matter():
    rows = any_floats(90 * 5).reshape(90, 5)
    forward = total(rows)
    shuffled = total(rows[np.random.default_rng(1).permutation(90)])
    parts = total(rows[60:]).merge(total(rows[:60]))
    for other in (shuffled, parts):
        np.testing.assert_array_equal(other.slots, forward.slots)
        np.testing.assert_array_equal(other.counts, forward.counts)


@pytest.mark.parametrize("value", [0.0, 1e-45, -1e-45, 1e-40, 1.1754944e-38, -7.1, 3.4028235e38])
def test_one_value_is_its_own_mean(value):
    for images in (1, 3, 1000):
        assert total([F([value])] * images).mean()[0] == F(value)


def test_what_is_not_finite_is_left_out():
    sums = total([F([1, np.nan, np.inf]), F([np.nan, np.nan, 3]), F([5, -np.inf, 4])])
    np.testing.assert_array_equal(sums.counts, [2, 0, 2])
    np.testing.assert_array_equal(sums.mean(), [3, 0, 3.5])


@pytest.mark.parametrize(
    "dims", [(1, 3, 5, 7), (1, 19, 12, 11), (1, 20), (1, 6, 20), (1, 2, 3, 4, 5)]
)
def test_kernels_report_what_numpy_does(dims):
    net = NetworkWriter(dims)
    mod = net.module(net.relu("y", net.x))
    columns = f"x{LAST_AXIS}"
    wanted = ["x", columns] if len(dims) == 4 else ["x"]
    runner = CalibrationNetwork(mod, {"x": "s8"}, wanted, native_target())
    x = np.random.default_rng(2).normal(size=dims).astype(F) + F(3)
    found = runner.statistics({"x": x})
    np.testing.assert_array_equal(found.means["x"], channel_means(x))
    floats = FloatTensors(NumpyNetwork(mod), [{"x": x}])
    stacked = KnownRunner(floats, ["x"], wanted).statistics(*floats).means
    arrays = ArrayRunner(lambda image: image, wanted).statistics({"x": x}).means
    for name in wanted:
        by_image = len(dims) == 4 and name == "x"
        axes = (0, 2, 3) if by_image else tuple(range(len(dims) - 1))
        expected = x.astype(np.float64).mean(axis=axes)
        np.testing.assert_allclose(found.means[name], expected, rtol=1e-5)
        np.testing.assert_allclose(stacked[name], expected, rtol=1e-5)
        np.testing.assert_array_equal(arrays[name], found.means[name])
    np.testing.assert_array_equal(found.ranges["x"], F([x.min(), x.max(), 0]))
