"""Both passes on a NumPy network: independent of batches and order, and what is degenerate."""

import numpy as np
import pytest

from relay_int8.calibration import (
    METHODS,
    CalibrationTable,
    Method,
    calibrate,
    open_data,
)
from relay_int8.calibration.methods import find_method
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.errors import CalibrationError, ConfigError
from relay_int8.graph.digest import Identity
from relay_int8.numerics.qparams import SMALLEST_THRESHOLD
from tests.calibration.array_runner import ArrayRunner

pytestmark = pytest.mark.fast
F = np.float32
X = TensorInfo(name="x", shape=(-1, 16), dtype="float32")
TENSORS = {"x": "s8", "h": "u8", "y": "asymmetric"}


def images(count=130):
    return np.random.default_rng(0).standard_t(3, size=(count, 16)).astype(F)


def network(image):
    w = np.random.default_rng(1).normal(size=(16, 40)).astype(F)
    h = np.maximum(image["x"] @ w, 0)
    return {"x": image["x"], "h": h, "y": h - F(1.5)}


def run(source, tensors=TENSORS, net=network, **options):
    means = [name for name in ("h",) if name in tensors]
    return calibrate(ArrayRunner(net, means), tensors, open_data(source, [X]), **options)


ORDERED = "moving-average"  # depends on the order of the images, by definition
COMMUTING = ["max", "percentile", "mse-affine", "kl-tensorrt", "kl-mxnet", "kl-ncnn", "kl-tpu-mlir"]


@pytest.mark.parametrize("method", COMMUTING)
def test_the_table_does_not_depend_on_batches_or_order(method):
    x = images()
    tables = set()
    for batch in (1, 7, 64):
        for order in (slice(None), np.random.default_rng(batch).permutation(len(x))):
            batches = [x[order][i : i + batch] for i in range(0, len(x), batch)]
            table = run(batches, method=method, keep_histograms=True)
            tables.add(table.to_json())
    assert len(tables) == 1
    table = CalibrationTable.from_json(tables.pop())
    assert table.images == 130
    h = [network({"x": row[None]})["h"][0].astype(np.float64) for row in x]
    np.testing.assert_array_equal(table.means["h"], np.mean(h, axis=0).astype(F))


def test_max_is_exact():
    table = run([images()], method="max", model=Identity("abc"))
    values = [network({"x": row[None]}) for row in images()]
    h = np.concatenate([value["h"] for value in values])
    entries = table.entries
    assert entries["h"].low == 0 and entries["h"].high == h.max()
    assert entries["y"].low == h.min() - F(1.5) and entries["y"].high == h.max() - F(1.5)
    assert entries["x"].high == np.abs(images()).max() == -entries["x"].low
    assert entries["x"].observed.low == images().min()
    assert table.model_hash == "abc" and table.notes == ()
    assert entries["h"].method == "max" and entries["h"].histogram is None
    assert all(entry.notes == () for entry in entries.values())


def test_one_sided_thresholds_hold_for_both_signs_of_asymmetric_tensors():
    entries = run([images()], method="kl-ncnn", keep_histograms=True).entries
    for name, entry in entries.items():
        assert entry.histogram.grid.absolute
        threshold = find_method("kl-ncnn").thresholds(entry.histogram, entry.scheme)[1]
        assert entry.high == F(min(threshold, max(-entry.observed.low, entry.observed.high)))
        zeros = sum(np.sum(network({"x": row[None]})[name] == 0) for row in images())
        assert entry.histogram.zeros == zeros
    assert entries["h"].histogram.zeros > 1000
    assert entries["y"].low == max(entries["y"].observed.low, -entries["y"].high)


@pytest.mark.parametrize("method", ["percentile", "kl"])
def test_thresholds_are_those_of_the_histogram(method):
    table = run([images()], method=method, keep_histograms=True)
    for name, entry in table.entries.items():
        low, high = find_method(method).thresholds(entry.histogram, entry.scheme)
        assert entry.histogram.total == 130 * (16 if name == "x" else 40)
        assert entry.high == F(min(high, max(-entry.observed.low, entry.observed.high)))
        if name == "x":
            assert entry.low == -entry.high
        else:
            assert entry.low == F(max(low, min(entry.observed.low, 0)))
        assert entry.observed.low <= entry.low or name == "x"


@pytest.mark.parametrize(
    ("shift", "scheme", "low"), [(0, "s8", -100), (100, "u8", 0), (99.5, "s8", -199.5)]
)
def test_an_input_is_unsigned_if_its_data_is(shift, scheme, low):
    x = np.linspace(-100, 100, 160, dtype=F).reshape(10, 16) + F(shift)
    entry = run([x], {"x": "input"}, method="max").entries["x"]
    assert (entry.scheme, entry.low, entry.high) == (scheme, low, 100 + shift)
    assert entry.qparams().dtype == {"u8": "uint8", "s8": "int8"}[scheme]


def test_kl_saturates_a_thin_tail_but_no_lonely_outlier():
    x = np.random.default_rng(0).laplace(size=(100, 1000)).astype(F)
    info = [TensorInfo(name="x", shape=(-1, 1000), dtype="float32")]
    runner = ArrayRunner(lambda image: image)
    high = calibrate(runner, {"x": "s8"}, open_data([x], info), method="kl").entries["x"].high
    assert 4 < high < 0.9 * np.abs(x).max()
    x[7, 3] = 1e4
    high = calibrate(runner, {"x": "s8"}, open_data([x], info), method="kl").entries["x"].high
    assert high == 1e4  # every candidate's last bin is empty: see the module


def counting(calls):
    def net(image):
        calls.append(image["x"])
        return network(image)

    return net


def test_max_needs_one_pass():
    calls = []
    run([images(10)], method="max", net=counting(calls))
    assert len(calls) == 10 and all(x.shape == (1, 16) for x in calls)
    run([images(10)], method="kl", net=counting(calls))
    assert len(calls) == 30


def test_progress():
    seen = []
    run([images(2)], method="kl", progress=lambda *state: seen.append(state))
    assert seen == [
        ("ranges", 1, None),
        ("ranges", 2, None),
        ("histograms", 1, 2),
        ("histograms", 2, 2),
    ]


@pytest.mark.parametrize(("count", "noted"), [(1, True), (19, True), (20, False)])
def test_few_images_are_noted(count, noted):
    notes = run([images(count)], method="max").notes
    assert bool(notes) == noted
    assert not noted or notes[0].startswith(f"only {count} images")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("scheme", "value", "low", "high", "scale", "note"),
    [
        ("u8", 0.0, 0, 0, 1, "all values are zero"),
        ("s8", -0.0, 0, 0, 1, "all values are zero"),
        ("asymmetric", 0.0, 0, 0, 1, "all values are zero"),
        ("u8", 1e-35, 0, 0, 1, "all values are zero (or below"),
        ("u8", 3.0, 0, 3, 3 / 255, "all values are 3.0"),
        ("s8", -3.0, -3, 3, 3 / 127, "all values are -3.0"),
        ("asymmetric", -3.0, -3, 0, 3 / 255, "all values are -3.0"),
        ("asymmetric", 3.0, 0, 3, 3 / 255, "all values are 3.0"),
        ("u8", 1e-30, 0, 1e-30, 1e-30 / 255, "all values are 1e-30"),
        ("u8", 1e30, 0, 1e30, 1e30 / 255, "all values are 1e+30"),
    ],
)
def test_constant_tensors(method, scheme, value, low, high, scale, note):
    table = run(
        [images(25)], {"c": scheme}, lambda _: {"c": np.full((3, 3), value, F)}, method=method
    )
    entry = table.entries["c"]
    assert (entry.low, entry.high) == (F(low), F(high))
    np.testing.assert_allclose(entry.qparams().scale, scale, rtol=1e-6)
    assert len(entry.notes) == 1 and entry.notes[0].startswith(note)
    assert CalibrationTable.from_json(table.to_json()).entries["c"].notes == entry.notes


@pytest.mark.parametrize("is_kept", [True, False])
def test_the_least_range_there_is(is_kept):
    high = F(SMALLEST_THRESHOLD) if is_kept else np.nextafter(F(SMALLEST_THRESHOLD), F(0))
    table = run([images(25)], {"c": "u8"}, lambda _: {"c": np.array([0, high], F)}, method="max")
    entry = table.entries["c"]
    assert (entry.low, entry.high) == (0, high if is_kept else 0)
    assert entry.notes == (
        () if is_kept else ("all values are zero (or below 2**-110): its scale is 1",)
    )


class Wide(Method):
    name = "wide"

    def thresholds(self, histogram, scheme):
        return -1e9, 1e9


def test_ranges_are_cut_to_what_was_observed():
    entries = run([images()], method=Wide()).entries
    exact = run([images()], method="max").entries
    for name, entry in entries.items():
        assert (entry.low, entry.high) == (exact[name].low, exact[name].high)
        assert entry.method == "wide"


class Roomy(Wide):
    """Cuts nothing, and reaches 1 further below and 2 further above."""

    def margins(self, histogram, scheme):
        return 1.0, 2.0


@pytest.mark.parametrize(
    ("scheme", "values", "low", "high"),
    [
        ("u8", [0, 5], 0, 7),
        ("s8", [-3, 5], -7, 7),
        ("s8", [-5, 3], -7, 7),
        ("asymmetric", [-3, 5], -4, 7),
        ("asymmetric", [0.25, 5], -1, 7),
        ("asymmetric", [-5, -0.25], -6, 2),
    ],
)
def test_margins_lie_beyond_the_ends_that_were_observed(scheme, values, low, high):
    table = run([images(25)], {"c": scheme}, lambda _: {"c": F(values)}, method=Roomy())
    assert (table.entries["c"].low, table.entries["c"].high) == (low, high)


def test_a_moving_average_depends_on_the_order_but_not_on_batches():
    x = images(60)
    batches = [[x[i : i + size] for i in range(0, 60, size)] for size in (1, 7, 60)]
    tables = [run(source, method=ORDERED) for source in batches]
    assert len({table.to_json() for table in tables}) == 1
    assert run([x[::-1]], method=ORDERED).to_json() != tables[0].to_json()
    high = 0.0
    for index, row in enumerate(x):
        top = float(network({"x": row[None]})["h"].max())
        high = top if index == 0 else float(F(high + 0.01 * (top - high)))
    assert tables[0].entries["h"].high == high < tables[0].entries["h"].observed.high
    assert tables[0].entries["h"].method == "moving-average 0.01"


@pytest.mark.parametrize("method", ["max", "percentile", "kl"])
@pytest.mark.parametrize("seed", range(10))
def test_the_range_never_exceeds_what_was_observed(method, seed):
    low, high = np.random.default_rng(seed).normal(size=2) * F([-3, 1]) - F([9, -9])
    x = np.full((25, 16), low, F)
    x[:, ::2] = high
    entry = run([x], {"x": "asymmetric"}, method=method).entries["x"]
    assert (entry.low, entry.high) == (F(low), F(high))


def test_values_inside_the_network_that_are_not_finite_are_noted():
    def net(image):
        return {"a": np.r_[image["x"][0], F(np.inf), F(np.nan)]}

    entry = run([images(30)], {"a": "s8"}, net, method="kl", keep_histograms=True).entries["a"]
    assert entry.notes == ("60 values were NaN or infinite and were left out",)
    assert entry.observed.nonfinite == 60 and entry.histogram.total == 480


def test_tensors_that_cannot_be_calibrated_are_all_listed():
    def net(image):
        huge = np.array([-3e38, 3e38], F)
        return {"a": np.full(3, np.nan, F), "b": image["x"], "c": image["x"], "d": huge}

    with pytest.raises(CalibrationError) as caught:
        run([images(5)], {"a": "u8", "b": "u8", "c": "s8", "d": "asymmetric"}, net)
    assert "a has no finite value (15 are NaN" in str(caught.value)
    assert "b was planned as never negative (u8), but falls to -" in str(caught.value)
    assert "d spans [-3e+38, 3e+38], more than float32 holds" in str(caught.value)
    assert "c " not in str(caught.value).split("calibrated: ")[1].split("; leave")[0]


def test_data_that_changes_between_passes():
    lengths = iter([3, 2])
    with pytest.raises(
        CalibrationError, match="first pass over the data gave 3 images, the second 2"
    ):
        run(lambda: [images(next(lengths))], method="kl")


def test_a_function_that_gives_one_generator_twice():
    generator = iter([images(3)])
    with pytest.raises(CalibrationError, match="gives the same batches each time"):
        run(lambda: generator, method="kl")


def test_no_data_and_no_method():
    with pytest.raises(CalibrationError, match="no image found"):
        run([])
    with pytest.raises(ConfigError, match="unknown"):
        run([images(3)], method="entropy")


@pytest.mark.parametrize("method", ["max", "mse", "mse-onepass"])
def test_nothing_to_calibrate_runs_nothing(method):
    def network(image):
        raise AssertionError("the network was run")

    table = run(
        [images(2)], {}, network, method=method, model=Identity("abc"), keep_histograms=True
    )
    assert not table.entries and table.model_hash == "abc"
    assert "no layer is in integers" in table.notes[0]
