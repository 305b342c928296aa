"""The vectorized searches against the published algorithms written out loop by loop."""

import math

import numpy as np
import pytest

from relay_int8.calibration import METHODS, Grid, Histogram, Range
from relay_int8.calibration.methods import aciq, kl_mxnet, kl_ncnn, mse
from relay_int8.calibration.methods.divergence import divergences
from relay_int8.calibration.methods.kl_tpu_mlir import whole_level_divergences
from tests.calibration import published
from tests.calibration.samples import SAMPLES, magnitudes

F = np.float32
every_sample = pytest.mark.parametrize("name", SAMPLES)


def counted(name, bins):
    values = magnitudes(name)
    return np.histogram(values, bins=bins, range=(0, values.max()))[0]


def histogram(counts, high=None, low=0.0, absolute=True, zeros=0):
    high = len(counts) if high is None else high
    return Histogram(Grid(F(low), F(high), absolute, len(counts)), np.asarray(counts), zeros)


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.fast
@every_sample
@pytest.mark.parametrize(("scheme", "levels"), [("s8", 128), ("u8", 256)])
def test_pytorch_quantization(name, scheme, levels):
    counts = counted(name, 320)
    kept, expected = published.pytorch_quantization(counts, levels)
    changed = np.r_[counts[1], counts[1:]]
    close(divergences(changed, levels, np.arange(128, 321)), expected)
    method = METHODS["kl-pytorch-quantization"]
    assert method.thresholds(histogram(counts), scheme) == (0, kept)


@every_sample
@pytest.mark.parametrize(("scheme", "levels"), [("s8", 255), ("u8", 511)])
def test_mxnet(name, scheme, levels):
    values = magnitudes(name)
    if scheme == "s8":
        values = values * np.random.default_rng(2).choice([-1, 1], values.size)
    limit = np.abs(values).max()
    counts = np.histogram(values, bins=801, range=(-limit, limit))[0]
    expected = published.mxnet(counts, levels)
    close(kl_mxnet.divergences(counts, levels), expected)
    best = levels // 2 + published.first_least(expected)
    found = METHODS["kl-mxnet"].thresholds(histogram(counts, 801, -801, False), scheme)
    threshold = -801 + 2 * (400 + best + 1)
    assert found == (-threshold, threshold)


@pytest.mark.parametrize("factor", [1, 7, 40, 10**9])
def test_mxnet_with_counts_of_any_size(factor):
    counts = counted("laplace", 601) * factor
    close(kl_mxnet.divergences(counts, 255), published.mxnet(counts, 255))


@pytest.mark.fast
@every_sample
def test_ncnn(name):
    counts = counted(name, 300)
    zeros = int(np.sum(magnitudes(name) == 0))
    rest = counts - zeros * (np.arange(300) == 0)
    expected = published.ncnn(rest)
    close(kl_ncnn.divergences(rest / rest.sum()), expected)
    best = 128 + published.first_least(expected) + 0.5
    assert METHODS["kl-ncnn"].thresholds(histogram(counts, zeros=zeros), "u8") == (0, best)


@pytest.mark.fast
@every_sample
def test_tpu_mlir(name):
    values = magnitudes(name)[:1500].astype(F)
    method = METHODS["kl-tpu-mlir"]
    seen = Range(values.min(), values.max(), 1)
    found = Histogram.of(values, method.grid("s8", seen))
    width = float(values.max()) / 2047
    places = np.floor(np.abs(values.astype(np.float64)) / width + 0.5).astype(int)
    published_counts = np.bincount(places[values != 0], minlength=2048)
    zeros = int(np.sum(values == 0))
    found = Histogram(found.grid, found.counts, zeros)
    # A value within float32 rounding of a boundary may be one bin off.
    assert np.abs(np.cumsum(found.without_zeros - published_counts)).max() <= 1
    expected = published.whole_levels(found.without_zeros)
    close(whole_level_divergences(found.without_zeros, 128), expected)
    threshold = (published.first_least(expected) + 1) * 128 * width
    np.testing.assert_allclose(method.thresholds(found, "s8")[1], threshold, rtol=1e-6)


@pytest.mark.fast
@every_sample
def test_ppq(name):
    counts = counted(name, 4096)
    changed = np.r_[np.zeros(8, int), 1, counts[9:]]
    expected = published.whole_levels(changed)
    found = METHODS["kl-ppq"].thresholds(histogram(counts), "u8")
    assert found == (0, 128 * (1 + published.first_least(expected)))


@pytest.mark.fast
@every_sample
@pytest.mark.parametrize(("scheme", "steps"), [("s8", 127), ("u8", 255)])
def test_mse(name, scheme, steps):
    counts = counted(name, 220)
    expected = published.mse(counts, steps)
    np.testing.assert_allclose(mse.squared_errors(counts, steps), expected, rtol=1e-9, atol=1e-6)
    best = int(np.argmin(expected))
    assert METHODS["mse"].thresholds(histogram(counts), scheme) == (0, 128.5 + best)


@pytest.mark.fast
@pytest.mark.parametrize("name", ["normal", "laplace", "relu", "heavy tail", "two humps"])
@pytest.mark.parametrize(("scheme", "noise"), [("s8", 4**-8 / 3), ("u8", 4**-8 / 12)])
def test_octav_costs_least(name, scheme, noise):
    counts = counted(name, 2048)
    cost = published.octav(counts, noise)
    found = METHODS["octav"].thresholds(histogram(counts), scheme)[1]
    assert 0 < found < 2048
    others = np.linspace(1, 2048, 800)
    assert cost(found) <= min(map(cost, others)) * (1 + 1e-4)


@pytest.mark.fast
@pytest.mark.parametrize(("scheme", "bits"), [("s8", 8), ("u8", 9)])
def test_aciq_constants_solve_their_equations(scheme, bits):
    a = aciq.LAPLACE[scheme]
    assert math.isclose(a * math.exp(a), 3 * 4**bits, rel_tol=1e-12)
    a = aciq.GAUSS[scheme]
    tail = a * math.erfc(a / math.sqrt(2)) + a / (3 * 4**bits)
    assert math.isclose(tail, math.sqrt(2 / math.pi) * math.exp(-a * a / 2), rel_tol=1e-9)


@pytest.mark.fast
def test_aciq_of_known_moments():
    # |x| = 1.5 three times and 3.5 once, and zeros that do not count: E|x| = 2, E x**2 = 4.75.
    counts = np.zeros(2048, int)
    counts[[0, 1, 3]] = 9, 3, 1
    found = histogram(counts, zeros=9)
    laplace = METHODS["aciq-laplace"]
    assert laplace.thresholds(found, "s8") == (0, aciq.LAPLACE["s8"] * 2)
    assert laplace.thresholds(found, "u8") == (0, aciq.LAPLACE["u8"] * 2)
    gauss = METHODS["aciq-gauss"].thresholds(found, "s8")[1]
    assert math.isclose(gauss, aciq.GAUSS["s8"] * math.sqrt(4.75), rel_tol=1e-15)


SEARCHES = [method for method in METHODS.values() if method.needs_counts]


def one_bin(method, index):
    seen = Range(F(-1), F(1), 1)
    grid = method.grid("s8", seen)
    counts = np.zeros(grid.bins, int)
    counts[index] = 7
    return Histogram(grid, counts)


@pytest.mark.fast
@pytest.mark.parametrize("scheme", ["u8", "s8"])
@pytest.mark.parametrize("method", SEARCHES, ids=str)
def test_no_value_at_all_keeps_everything(method, scheme):
    grid = method.grid("s8", Range(F(-1), F(1), 1))
    empty = Histogram(grid, np.zeros(grid.bins, int))
    assert method.thresholds(empty, scheme)[1] == grid.high


@pytest.mark.fast
@pytest.mark.parametrize("method", [m for m in SEARCHES if m.counts_zeros], ids=str)
def test_zeros_alone_keep_everything(method):
    grid = method.grid("s8", Range(F(-1), F(1), 1))
    counts = np.zeros(grid.bins, int)
    counts[0] = 5
    assert method.thresholds(Histogram(grid, counts, 5), "u8")[1] == grid.high


@pytest.mark.fast
@pytest.mark.parametrize("index", [0, 1, 127, 128, 129, 1000, -2, -1])
@pytest.mark.parametrize("scheme", ["u8", "s8"])
@pytest.mark.parametrize("method", SEARCHES, ids=str)
def test_one_filled_bin_gives_a_threshold_above_zero(method, scheme, index):
    found = one_bin(method, index)
    low, high = method.thresholds(found, scheme)
    assert np.isfinite([low, high]).all() and low <= 0 < high <= found.grid.high * 2048 / 2047


@pytest.mark.fast
@pytest.mark.parametrize("high", [2.0**-100, 2.0**100])
@pytest.mark.parametrize("method", SEARCHES, ids=str)
def test_the_threshold_follows_the_range(method, high):
    def threshold(high):
        grid = method.grid("s8", Range(F(-high), F(high), 1))
        values = np.random.default_rng(0).laplace(size=grid.bins)
        counts = np.histogram(np.abs(values), bins=grid.bins)[0]
        return method.thresholds(Histogram(grid, counts), "s8")[1]

    np.testing.assert_allclose(threshold(high), threshold(1.0) * float(F(high)), rtol=1e-6)
