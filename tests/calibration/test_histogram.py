"""Ranges and histograms: the kernels' arithmetic, exact merging."""

import itertools

import numpy as np
import pytest

from relay_int8.calibration import Grid, Histogram, Range
from relay_int8.calibration.histogram import CACHED
from relay_int8.errors import CalibrationError

F = np.float32
pytestmark = pytest.mark.fast


def observed(*values):
    return Range.from_statistic(Range.statistic(np.array(values, F)))


def test_range_leaves_out_what_is_not_finite():
    assert observed(-2, 3, np.nan, np.inf, -np.inf) == Range(F(-2), F(3), 1, 3)


def test_range_of_nothing_finite():
    found = observed(np.nan, np.inf)
    assert found.empty and found.nonfinite == 2
    assert found.merge(observed(1, 2)) == Range(F(1), F(2), 2, 2)
    assert Range().merge(observed(1, 2)) == observed(1, 2)


def test_merging_ranges_does_not_depend_on_order():
    parts = [observed(0.0, 1), observed(-0.0, 0.5), observed(np.nan), observed(-0.0), observed(0.0)]
    merged = set()
    for order in itertools.permutations(parts):
        total = Range()
        for part in order:
            total = total.merge(part)
        merged.add((total.low.tobytes(), total.high.tobytes(), total.images, total.nonfinite))
    assert merged == {(F(0).tobytes(), F(1).tobytes(), 5, 1)}


@pytest.mark.parametrize(
    ("scheme", "low", "high", "grid"),
    [
        ("u8", 0, 5, (0, 5, True)),
        ("u8", 2, 2, (0, 2, True)),
        ("s8", -7, 5, (0, 7, True)),
        ("s8", -7, -6, (0, 7, True)),
        ("asymmetric", -7, 5, (-7, 5, False)),
        ("asymmetric", 3, 5, (0, 5, False)),
        ("asymmetric", -5, -3, (-5, 0, False)),
        ("u8", 0, 0, (0, 1, True)),
        ("asymmetric", 0, 0, (0, 1, False)),
        ("s8", -1e-35, 1e-36, (0, 1, True)),
        ("s8", -1e-30, 0, (0, 1e-30, True)),
        ("u8", 0, 3e38, (0, 3e38, True)),
    ],
)
def test_grid(scheme, low, high, grid):
    found = Grid.over(Range(F(low), F(high), 1), scheme != "asymmetric")
    assert found == Grid(F(grid[0]), F(grid[1]), grid[2], 2048)
    assert np.isfinite(found.inverse) and found.inverse > 0
    assert found.width >= np.finfo(F).tiny


@pytest.mark.parametrize(("low", "high"), [(-3e38, 3e38), (0, 0), (2, 1), (0, 1e-36), (np.nan, 1)])
def test_grids_that_kernels_cannot_compute(low, high):
    with pytest.raises(CalibrationError, match="width"):
        Grid(F(low), F(high), False)


def test_bins_by_hand():
    grid = Grid(F(0), F(4), True, 4)
    values = np.array([0, 0.999, 1, -1, -3.999, 4, 2, np.nan, np.inf, 9], F)
    np.testing.assert_array_equal(Histogram.of(values, grid).counts, [2, 2, 1, 3])
    signed = Grid(F(-2), F(2), False, 4)
    values = np.array([-2, -1.001, -1, -0.0, 0, 1.5, 2, -5], F)
    np.testing.assert_array_equal(Histogram.of(values, signed).counts, [3, 1, 2, 2])


@pytest.mark.parametrize("absolute", [True, False])
def test_the_largest_lands_in_the_last_bin(absolute):
    rng = np.random.default_rng(0)
    for exponent in range(-30, 31):
        high = F(rng.uniform(1, 10) * 10.0**exponent)
        low = F(0) if absolute else -high / F(3)
        counts = Histogram.of(np.array([low, high]), Grid(low, high, absolute)).counts
        assert counts[-1] == 1 and counts[0] == 1


def test_bins_are_float32_arithmetic():
    grid = Grid(F(-1.3), F(2.9), False, 100)
    values = np.random.default_rng(0).normal(size=5000).astype(F)
    expected = np.zeros(100, np.int64)
    for v in values:
        expected[min(max(int(F(F(v - grid.low) * grid.inverse)), 0), 99)] += 1
    np.testing.assert_array_equal(Histogram.of(values, grid).counts, expected)


@pytest.mark.parametrize("absolute", [True, False])
def test_values_are_counted_in_blocks(absolute):
    values = np.random.default_rng(0).normal(size=(3, CACHED // 2 + 7)).astype(F)
    values[1, ::1000], values[2, 5] = np.inf, np.nan
    grid = Grid(F(0) if absolute else F(-2), F(2.5), absolute, 100)
    v = values[np.isfinite(values)]
    position = ((np.abs(v) if absolute else v) - grid.low) * grid.inverse
    bins = np.clip(position.astype(np.int64), 0, 99)
    expected = np.bincount(bins, minlength=100)
    np.testing.assert_array_equal(Histogram.of(values, grid).counts, expected)


def test_merging_histograms():
    values = np.random.default_rng(0).normal(size=(3, 100)).astype(F)
    grid = Grid(F(0), F(4), True, 16)
    a, b, c = (Histogram.of(row, grid) for row in values)
    whole = Histogram.of(values, grid)
    for merged in (a.merge(b).merge(c), c.merge(a.merge(b))):
        np.testing.assert_array_equal(merged.counts, whole.counts)
    assert whole.total == 300


def test_other_grids_do_not_merge():
    a, b = (Histogram(Grid(F(0), F(high), True, 4), np.zeros(4)) for high in (1, 2))
    with pytest.raises(CalibrationError, match="cannot be merged"):
        a.merge(b)


def test_counts_are_checked_and_kept():
    grid = Grid(F(0), F(1), True, 4)
    for counts in (np.zeros(5), np.array([1, 2, -1, 0])):
        with pytest.raises(CalibrationError, match="4 counts"):
            Histogram(grid, counts)
    mine = np.zeros(4, np.int64)
    kept = Histogram(grid, mine)
    mine += 1
    assert kept.total == 0
    with pytest.raises(ValueError, match="read-only"):
        kept.counts[0] = 1
