"""Other methods' ranges from counts that were kept are those of a calibration by each method."""

import numpy as np
import pytest

from relay_int8.calibration import METHODS, Histogram, Range
from relay_int8.calibration.alternatives import alternatives, divergence_curve
from relay_int8.calibration.choose import choose
from relay_int8.calibration.table import CalibrationTable

pytestmark = pytest.mark.fast

RNG = np.random.default_rng(5)
SIGNED = RNG.laplace(size=20_000).astype(np.float32)
VALUES = {"u8": np.maximum(SIGNED, 0), "s8": SIGNED, "asymmetric": np.maximum(SIGNED, -1)}


def entry(scheme, method="kl-tensorrt", keep=True, zeros=0):
    values, chosen = VALUES[scheme], METHODS[method]
    seen = Range(values.min(), values.max(), 1)
    counted = Histogram.of(values, chosen.grid(scheme, seen))
    counted = Histogram(counted.grid, counted.counts, zeros)
    return choose(scheme, seen, counted, chosen, keep_histogram=keep)


@pytest.mark.parametrize("scheme", VALUES)
def test_each_answer_is_that_of_its_own_calibration(scheme):
    found = alternatives(entry(scheme))
    assert {"max", "percentile", "kl-tensorrt"} <= set(found)
    for name, other in found.items():
        alone = entry(scheme, name)
        assert (other.low, other.high, other.method) == (alone.low, alone.high, alone.method)
        assert other.histogram is None


def test_methods_that_count_otherwise_are_not_asked():
    found = alternatives(entry("s8"))
    others = ("kl-mxnet", "kl-ppq", "kl-tpu-mlir", "kl-tensorrt-onepass", "moving-average")
    assert not set(others) & set(found)
    assert "mse" in found
    assert "mse" not in alternatives(entry("asymmetric"))


def test_methods_that_leave_zeros_out_need_their_number():
    assert VALUES["u8"].min() == 0
    assert "kl-ncnn" not in alternatives(entry("u8"))
    zeros = int((VALUES["u8"] == 0).sum())
    found = alternatives(entry("u8", zeros=zeros))
    assert found["kl-ncnn"].high == entry("u8", "kl-ncnn", zeros=zeros).high


def test_without_counts_there_is_nothing():
    assert alternatives(entry("s8", keep=False)) == {}


def test_the_curve_is_least_where_the_search_ends():
    one = entry("s8")
    thresholds, found = divergence_curve(one.histogram)
    assert len(thresholds) == len(found) > 500
    assert np.float32(thresholds[found.argmin()]) == one.high
    assert len(divergence_curve(entry("asymmetric").histogram)[0]) == 0


def test_a_table_takes_the_counts_of_another():
    kept = CalibrationTable(entries={"x": entry("s8", "mse")})
    other = CalibrationTable(entries={"x": entry("s8", "max", keep=False)}, images=3)
    both = other.with_histograms_of(kept)
    assert both.entries["x"].histogram is kept.entries["x"].histogram
    assert (both.entries["x"].high, both.images) == (other.entries["x"].high, 3)
