"""Grids that grow by merging pairs: the histogram is that of counting over the last grid at once."""

import numpy as np
import pytest

from relay_int8.calibration import Grid, Histogram, Range, calibrate, open_data
from relay_int8.calibration.growing import covering, merge_growing
from relay_int8.calibration.methods import METHODS, find_method
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.errors import CalibrationError
from tests.calibration.array_runner import ArrayRunner

pytestmark = pytest.mark.fast
F = np.float32
X = TensorInfo(name="x", shape=(-1, 50), dtype="float32")
TENSORS = {"x": "s8", "h": "u8", "y": "asymmetric"}
NAMES = [name for name in METHODS if name.endswith("-onepass")]


def images(count=70):
    rng = np.random.default_rng(0)
    return (rng.standard_t(2, size=(count, 50)) * np.exp(rng.normal(size=(count, 1)) * 2)).astype(F)


def network(image):
    h = np.maximum(image["x"], 0)
    return {"x": image["x"], "h": h, "y": h - F(0.25)}


def run(source, net=network, **options):
    runner = ArrayRunner(net, ["h"])
    return calibrate(runner, TENSORS, open_data(source, [X]), **options)


@pytest.mark.parametrize("method", NAMES)
def test_the_table_does_not_depend_on_batches_or_order(method):
    x, tables = images(), set()
    for batch in (1, 7, 64):
        for order in (
            slice(None),
            slice(None, None, -1),
            np.random.default_rng(batch).permutation(70),
        ):
            batches = [x[order][i : i + batch] for i in range(0, len(x), batch)]
            tables.add(run(batches, method=method, keep_histograms=True).to_json())
    assert len(tables) == 1


def test_counts_are_those_of_the_last_grid():
    table = run([images()], method="kl-tensorrt-onepass", keep_histograms=True)
    for name, entry in table.entries.items():
        values = np.concatenate([network({"x": row[None]})[name].ravel() for row in images()])
        grid = entry.histogram.grid
        largest = np.abs(values).max()
        assert grid.high / 2 <= largest < grid.high and np.log2(grid.high) % 1 == 0
        assert grid == find_method("kl-tensorrt-onepass").grid("s8", entry.observed)
        np.testing.assert_array_equal(entry.histogram.counts, Histogram.of(values, grid).counts)
        found = find_method("kl-tensorrt").thresholds(entry.histogram, "s8")[1]
        assert entry.high == F(min(found, max(largest, 0)))


def test_one_pass_is_one_pass_and_a_growing_image_runs_twice():
    calls = []

    def net(image):
        calls.append(image)
        return network(image)

    x = np.full((6, 50), 1, F) * F([[1], [1.9], [2], [1], [3.9], [1]])
    run([x], net, method="kl-tensorrt-onepass")
    assert len(calls) == 6 + 4  # the first, where y reaches 1 and 2, and where x reaches 2


def test_two_passes_agree_within_a_bin():
    one, two = (
        run([images()], method=name, keep_histograms=True).entries
        for name in ("percentile-onepass", "percentile")
    )
    for name in ("x", "h"):
        assert abs(one[name].high - two[name].high) <= 2 * one[name].histogram.grid.width


def test_the_ends_of_float32():
    assert covering(0.0, 2048).high == F(2.0**-109)
    assert covering(2.0**-149, 2048).high == F(2.0**-109)
    assert covering(1.0, 2048).high == 2
    assert covering(np.nextafter(F(1), F(0)), 2048).high == 1
    assert covering(2.0**126.9, 2048).inverse == F(2.0**-116)
    with pytest.raises(CalibrationError, match="beyond 2\\*\\*127"):
        covering(float(np.finfo(F).max), 2048)


def test_merging_over_any_distance():
    values = F([0, 2.0**-120, 2.0**-80, 0.75])
    parts = [Histogram.of(F([v]), covering(float(v), 2048)) for v in values]
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        merged = parts[order[0]]
        for index in order[1:]:
            merged = merge_growing(merged, parts[index])
        expected = Histogram.of(values, Grid(F(0), F(1), True))
        np.testing.assert_array_equal(merged.counts, expected.counts)
        assert merged.grid == expected.grid


def test_tensors_without_finite_values_keep_the_narrowest_grid():
    assert Range.from_statistic(F([np.inf, -np.inf, 5])).empty
    with pytest.raises(CalibrationError, match="no finite value"):
        run([images(2)], lambda image: {k: np.full(3, np.nan, F) for k in TENSORS},
            method="kl-tensorrt-onepass")  # fmt: skip
