"""mse-affine against the sum over all values, candidate by candidate, and what is degenerate."""

from dataclasses import replace

import numpy as np
import pytest

from relay_int8.calibration import Grid, Histogram, Range
from relay_int8.calibration.choose import choose
from relay_int8.calibration.methods import METHODS
from relay_int8.calibration.methods.mse_affine import CUT, STRIDE, errors_behind, squared_errors
from relay_int8.numerics.qparams import quantize

pytestmark = pytest.mark.fast
F = np.float32
METHOD = METHODS["mse-affine"]
BINS = 256


def two_sided(counts, low, high):
    return Histogram(Grid(F(low), F(high), False, len(counts)), np.asarray(counts))


def magnitudes(counts, high):
    return Histogram(Grid(F(0), F(high), True, len(counts)), np.asarray(counts))


def summed(counts, zero, low, high, steps):
    """Return the error of one range, bin by bin."""
    s, total = (high - low) / steps, 0.0
    for place, count in enumerate(counts):
        x = place + 0.5 - zero
        x = 0.0 if abs(x) <= 0.5 else x
        if place < low:
            total += count * (x - (low - zero)) ** 2
        elif place >= high:
            total += count * (x - (high - zero)) ** 2
        else:
            total += count * (x**2 if abs(x) < s / 2 else s**2 / 12)
    return total


@pytest.mark.parametrize("zero", [0.0, 3.25, 64.0, 200.5, 256.0])
@pytest.mark.parametrize("steps", [7, 127, 255])
def test_errors_are_those_of_every_bin(zero, steps):
    counts = np.random.default_rng(int(zero)).integers(0, 1000, BINS)
    lows, highs = np.arange(0.0, zero + 1e-9, STRIDE), np.arange(BINS, zero, -STRIDE, dtype=float)
    highs = highs if len(highs) else np.array([float(BINS)])
    expected = [[summed(counts, zero, low, high, steps) for high in highs] for low in lows]
    found = squared_errors(counts, zero, lows, highs, steps)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def normal_counts(low, high, outlier=0):
    """Return counts of a normal distribution over [low, high], and of its last bin."""
    x = low + (np.arange(2048) + 0.5) * (high - low) / 2048
    counts = np.round(1e6 * np.exp(-(x**2) / 2)).astype(np.int64)
    counts[-1] += outlier
    return counts


def test_a_thin_tail_saturates_and_a_heavy_one_does_not():
    _, thin = METHOD.thresholds(two_sided(normal_counts(-20, 20, 1), -20, 20), "asymmetric")
    _, heavy = METHOD.thresholds(two_sided(normal_counts(-20, 20, 10**8), -20, 20), "asymmetric")
    assert 3 < thin < 8
    assert heavy == 20


def test_both_ends_are_chosen_apart():
    low, high = METHOD.thresholds(two_sided(normal_counts(-20, 4, 10**8), -20, 4), "asymmetric")
    assert high == 4
    assert -6 < low < -3
    mirrored = two_sided(normal_counts(-20, 4, 10**8)[::-1], -4, 20)
    assert METHOD.thresholds(mirrored, "asymmetric") == (-high, -low)


def test_fewer_steps_want_a_narrower_range():
    counts = normal_counts(-20, 20)[1024:]
    (_, s8), (_, u8) = (METHOD.thresholds(magnitudes(counts, 20), name) for name in ("s8", "u8"))
    assert s8 < u8


@pytest.mark.parametrize(("high", "is_cut"), [(4, False), (8, True), (20, True)])
def test_what_saves_little_is_not_cut(high, is_cut):
    _, found = METHOD.thresholds(magnitudes(normal_counts(0, high), high), "u8")
    assert (found < high) == is_cut


@pytest.mark.parametrize(
    ("histogram", "scheme", "expected"),
    [
        (magnitudes(np.zeros(BINS, int), 3.5), "u8", (0, 3.5)),
        (two_sided(np.zeros(BINS, int), -1, 3), "asymmetric", (-1, 3)),
        (two_sided([0] * (BINS - 1) + [5], -4, 0), "asymmetric", (-4, 0)),
        (two_sided([5] + [0] * (BINS - 1), 0, 4), "asymmetric", (0, 4)),
        (magnitudes([0] * (BINS - 1) + [9], 4), "u8", (0, 4)),
    ],
)
def test_degenerate_histograms(histogram, scheme, expected):
    assert METHOD.thresholds(histogram, scheme) == pytest.approx(expected, abs=1e-6)


def test_the_range_of_a_tensor_stays_within_what_was_observed():
    observed = Range(F(-0.3), F(20), images=1)
    counts = normal_counts(-0.3, 20)
    entry = choose("asymmetric", observed, two_sided(counts, -0.3, 20), METHOD)
    assert entry.low == F(-0.3) and 3 < entry.high < 8
    assert entry.method == "mse-affine"


def test_few_values_leave_room_for_others_beyond_them():
    rng = np.random.default_rng(5)
    values = rng.standard_normal(768).astype(F)
    entry = chosen(values, "asymmetric")
    assert 1.1 < entry.low / values.min() < 1.26 and 1.1 < entry.high / values.max() < 1.26
    unseen = rng.standard_normal(100_000).astype(F)
    assert mean_error(unseen, entry) < mean_error(unseen, replace(entry, **extremes(values))) / 2


@pytest.mark.parametrize("scheme", ["u8", "s8", "asymmetric"])
def test_many_values_leave_none(scheme):
    values = (np.random.default_rng(6).random((4, 200_000)).sum(axis=0) - 2).astype(F)
    values = np.abs(values) if scheme == "u8" else values
    entry = chosen(values, scheme)
    largest = np.abs(values).max()
    assert entry.high <= {"u8": largest, "s8": largest, "asymmetric": values.max()}[scheme]


def test_bounds_of_functions_are_not_passed():
    values = np.clip(np.random.default_rng(7).standard_normal(500), -1, 0.5).astype(F)
    entry = chosen(values, "asymmetric")
    assert (entry.low, entry.high) == (-1, 0.5)


@pytest.mark.parametrize("scheme", ["u8", "s8"])
def test_magnitudes_have_room_above_alone(scheme):
    values = np.abs(np.random.default_rng(8).standard_normal(300)).astype(F)
    entry = chosen(values, scheme)
    assert 1.05 < entry.high / values.max() <= 1.2501
    assert entry.low == (0 if scheme == "u8" else -entry.high)


def test_an_end_that_cuts_does_not_move():
    values = np.random.default_rng(9).standard_normal(200_000).astype(F)
    entry = chosen(values, "asymmetric")
    assert values.min() < entry.low and entry.high < values.max()


def test_too_few_values_and_the_largest_floats():
    assert chosen(np.array([-1, 2, 3], F), "asymmetric").high == 3
    largest = np.finfo(F).max
    values = np.append(np.linspace(-1, 1, 40), [0.99]).astype(F) * largest
    assert np.isfinite(chosen(values, "s8").high)


def chosen(values, scheme, function=None):
    """Return the entry that calibration makes of some values."""
    observed = Range.from_statistic(Range.statistic(values))
    grid = METHOD.grid(scheme, observed)
    return choose(scheme, observed, Histogram.of(values, grid), METHOD, function=function)


def behind(counts, function, edges, low, high, steps):
    """Return the error of one range, bin by bin: of a function, and of what it reads."""
    width, total = edges[1] - edges[0], 0.0
    for place, count in enumerate(counts):
        y = function(edges[place] + width / 2)
        slope = function(edges[place + 1]) - function(edges[place])
        if place < low:
            total += CUT * count * (y - function(edges[low])) ** 2
        elif place >= high:
            total += CUT * count * (y - function(edges[high])) ** 2
        else:
            total += count * (slope * (high - low) / steps) ** 2 / 12
    return total


def test_errors_behind_a_function_are_those_of_every_bin():
    counts = np.random.default_rng(3).integers(0, 1000, 64)
    edges = np.linspace(-3, 5, 65)
    lows, highs = np.array([0, 8, 16]), np.array([64, 48, 32])
    expected = [[behind(counts, np.tanh, edges, low, high, 255) for high in highs] for low in lows]
    values = np.tanh(edges[:-1] + 1 / 16)
    found = errors_behind(counts, np.tanh(edges), values, 24.0, lows, highs, 255)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def swish(x):
    return x / (1 + np.exp(-x))


def test_a_range_need_not_hold_what_a_function_makes_nothing_of():
    values = (np.random.default_rng(4).standard_normal(100_000) * 3).astype(F)
    entry, plain = chosen(values, "asymmetric", swish), chosen(values, "asymmetric")
    assert -9 < entry.low < -4 and plain.low < entry.low - 2
    assert entry.high > 9
    errors = [
        np.square(swish(seen(values, each)) - swish(values)).mean() for each in (entry, plain)
    ]
    assert errors[0] < 0.75 * errors[1]


@pytest.mark.parametrize("scheme", ["asymmetric", "s8"])
def test_a_function_without_values_everywhere_changes_nothing(scheme):
    values = np.random.default_rng(5).standard_normal(100_000).astype(F)
    assert chosen(values, scheme, np.log) == chosen(values, scheme)


def test_magnitudes_of_both_signs_have_no_function():
    values = (np.random.default_rng(4).standard_normal(100_000) * 3).astype(F)
    assert chosen(values, "s8", swish) == chosen(values, "s8")


def extremes(values):
    return {"low": values.min(), "high": values.max()}


def seen(values, entry):
    """Return what the integers of some values stand for."""
    params = entry.qparams()
    return (quantize(values, params).astype(F) - params.zero_point) * params.scale


def mean_error(values, entry):
    return float(np.square(seen(values, entry) - values).mean())
