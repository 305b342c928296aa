"""max and percentile, and the table of methods."""

import numpy as np
import pytest

from relay_int8.calibration import METHODS, Grid, Histogram, Max, Percentile
from relay_int8.calibration.methods import find_method
from relay_int8.errors import ConfigError

F = np.float32
pytestmark = pytest.mark.fast


def histogram(counts, low=0.0, high=None, absolute=True):
    high = len(counts) if high is None else high
    return Histogram(Grid(F(low), F(high), absolute, len(counts)), np.asarray(counts, np.int64))


def test_names():
    names = "max moving-average percentile mse mse-affine octav aciq-gauss aciq-laplace "
    names += "kl-tensorrt kl-pytorch-quantization kl-mxnet kl-ncnn kl-tpu-mlir kl-ppq "
    names += "kl-tensorrt-onepass percentile-onepass mse-onepass"
    assert list(METHODS) == names.split()
    for name, method in METHODS.items():
        assert str(method).split()[0] == name
    assert str(METHODS["percentile"]) == "percentile 99.99"
    assert find_method("kl") is METHODS["kl-tensorrt"]
    assert find_method(Percentile(99.9)) == Percentile(99.9)
    with pytest.raises(ConfigError, match="'entropy' is unknown; choose one of max, moving"):
        find_method("entropy")


def test_max_reads_the_grid_alone():
    assert Max().thresholds(histogram(np.zeros(8), high=3.5)) == (0, 3.5)
    assert Max().thresholds(histogram(np.zeros(8), -2, 3.5, False)) == (-2, 3.5)


@pytest.mark.parametrize(
    ("percentile", "counts", "threshold"),
    [
        (100, [1, 1, 1, 1], 4),
        (75, [1, 1, 1, 1], 3),
        (74.9, [1, 1, 1, 1], 3),
        (75.1, [1, 1, 1, 1], 4),
        (99.99, [9999, 0, 0, 1], 1),
        (55, [11, 0, 0, 9], 1),  # 55 percent of 20; the float 0.55 is a little more
        (99.99, [9998, 0, 0, 2], 4),
        (99.99, [5, 0, 0, 0], 1),
        (99.99, [0, 0, 0, 5], 4),
        (99.99, [0, 0, 0, 0], 4),
        (50, [10**15, 10**15, 1, 0], 2),
        (100, [7, 0, 0, 0], 1),
    ],
)
def test_one_sided_percentile(percentile, counts, threshold):
    assert Percentile(percentile).thresholds(histogram(counts)) == (0, threshold)


@pytest.mark.parametrize(
    ("percentile", "counts", "low", "high"),
    [
        (100, [1, 8, 8, 1], -2, 2),
        (80, [1, 8, 8, 1], -1, 1),  # a tail may lose 10 % of 18, so one value of it
        (90, [1, 8, 8, 1], -2, 2),
        (80, [0, 0, 0, 5], 0, 2),  # zero stays inside
        (80, [5, 0, 0, 0], -2, 0),
        (80, [0, 0, 0, 0], -2, 2),
    ],
)
def test_two_sided_percentile(percentile, counts, low, high):
    assert Percentile(percentile).thresholds(histogram(counts, -2, 2, False)) == (low, high)


def test_two_sided_percentile_is_mirrored_by_a_mirrored_tensor():
    counts = np.random.default_rng(0).integers(0, 50, 64)
    low, high = Percentile(95).thresholds(histogram(counts, -1, 1, False))
    assert Percentile(95).thresholds(histogram(counts[::-1], -1, 1, False)) == (-high, -low)


@pytest.mark.parametrize("percentile", [49, 100.1, float("nan")])
def test_percentile_out_of_range(percentile):
    with pytest.raises(ConfigError, match="from 50 to 100"):
        Percentile(percentile)


@pytest.mark.parametrize("high", [1e-30, 1e30])
def test_scale_does_not_matter(high):
    counts = [50, 30, 15, 5]
    found = Percentile(90).thresholds(histogram(counts, high=high))
    assert found == (0, 3 * float(F(high) / F(4)))
