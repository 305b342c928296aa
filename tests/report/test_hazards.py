"""Each hazard is found where it was planted, and nowhere else."""

import dataclasses

import numpy as np
import pytest
from tvm import relax

from relay_int8.calibration import CalibrationTable, Entry, Grid, Histogram, Range
from relay_int8.calibration.formats import fit, given_ranges
from relay_int8.errors import CalibrationError
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.report.contents import Hazard
from relay_int8.report.hazards import UNCALIBRATED, find_hazards, require_calibrated
from schedules.x86.saturating import saturating_share
from tests.small_networks import NETWORKS, NetworkWriter

F = np.float32


def entry(low, high, seen=None, **fields):
    scheme = "u8" if low == 0 else "s8"
    seen = seen or (low, high)
    observed = Range(F(seen[0]), F(seen[1]), images=50)
    return Entry(scheme=scheme, low=F(low), high=F(high), observed=observed, method="m", **fields)


def network(weights, bias=None):
    net = NetworkWriter((1, weights.shape[1], 5, 5))
    y = net.emit("y/conv", relax.op.nn.conv2d(net.x, relax.const(weights)))
    bias = np.zeros(len(weights), F) if bias is None else bias
    return net.module(net.emit("y", relax.op.add(y, relax.const(bias.reshape(1, -1, 1, 1)))))


def hazards(mod, entries=None, images=50):
    plan = annotate(mod, QuantConfig())
    table = None if entries is None else CalibrationTable(entries=entries, images=images)
    return {(item.kind, item.name): item.message for item in find_hazards(mod, plan, table)}


def tame():
    """Return weights (4, 2, 1, 1) that no hazard is found in."""
    w = np.random.default_rng(0).uniform(-0.005, 0.005, (4, 2, 1, 1)).astype(F)
    w[:, 0] = 1  # of a pair, the other one has at most one step
    return w


def test_a_sound_network_has_none():
    assert hazards(network(tame()), {"x": entry(-1, 1)}) == {}
    assert hazards(network(tame())) == {}


def test_channels_without_weights():
    w = tame()
    w[[1, 3]] = 0
    assert "2 of 4 channels" in hazards(network(w))["dead-channels", "y"]


def test_int32_overflow_before_and_after_calibration():
    w = np.ones((2, 70_000, 1, 1), F)
    found = hazards(network(w))
    assert str(70_000 * 127 * 255) in found["int32-overflow", "y"]
    plan = annotate(network(w), QuantConfig(), {"y": "accumulator of channel 0 may reach 9"})
    found = find_hazards(network(w), plan, CalibrationTable(entries={"x": entry(-1, 1)}, images=50))
    assert [item.kind for item in found] == ["int32-overflow"]
    assert "stays in float" in found[0].message


@pytest.mark.parametrize(
    ("pair", "dangerous"),
    [((64, 64), False), ((64, 65), True), ((-64, -64), False), ((-65, -64), True),
     ((127, -127), False), ((127, 1), False), ((127, 2), True)],
)  # fmt: skip
def test_int16_pairs(pair, dangerous):
    products = [sum(w * a for w, a in zip(pair, (x, y), strict=True))
                for x in (0, 255) for y in (0, 255)]  # fmt: skip
    assert dangerous == any(not -(2**15) <= p < 2**15 for p in products)
    weights = np.array(pair, np.int8).reshape(1, 2, 1, 1)
    assert saturating_share(weights) == float(dangerous)
    depthwise = np.array([*pair, 0], np.int8).reshape(1, 1, 1, 3)
    assert saturating_share(depthwise) == float(dangerous)


def test_one_weight_a_channel_has_no_pairs():
    assert saturating_share(np.full((16, 1, 1, 1), 127, np.int8)) == 0.0


def test_int16_saturation_is_told_once_for_the_network():
    message = hazards(network(np.ones((2, 2, 1, 1), F)))["int16-saturation", ""]
    assert message.startswith("in 1 of 1 layers (y: 100.0%")


def test_pairs_of_signed_bytes_are_not_u8_times_s8():
    mod = network(np.ones((2, 2, 1, 1), F))
    assert ("int16-saturation", "") in hazards(mod, {"x": entry(0, 1)})
    assert ("int16-saturation", "") not in hazards(mod, {"x": entry(-1, 1)})


def test_few_images():
    mod = network(tame())
    assert "19 images" in hazards(mod, {"x": entry(-1, 1)}, images=19)["few-images", ""]
    assert hazards(mod, {"x": entry(-1, 1)}, images=0) == {}  # another tool's table does not say


def histogram(counts):
    return Histogram(Grid(F(0), F(8), True, 8), np.array(counts))


def test_tensors_that_saturate():
    mod = network(tame())
    found = hazards(
        mod, {"x": entry(-3.9, 3.9, (-8, 8), histogram=histogram([5, 5, 5, 5, 5, 4, 0, 1]))}
    )
    assert "reach 8 and are cut at 3.9 (33.333% of them)" in found["saturation", "x"]
    assert hazards(mod, {"x": entry(-4, 4, (-8, 8))}) == {}


def test_tensors_that_waste_their_range():
    mod = network(tame())
    assert (
        "integers above zero" in hazards(mod, {"x": entry(-8, 8, (-0.49, 8))})["unused-range", "x"]
    )
    assert (
        "integers below zero" in hazards(mod, {"x": entry(-8, 8, (-8, 0.49))})["unused-range", "x"]
    )
    assert hazards(mod, {"x": entry(-8, 8, (-0.5, 8))}) == {}
    spike = histogram([10_000, 0, 0, 0, 0, 0, 0, 1])
    found = hazards(mod, {"x": entry(-8, 8, histogram=spike)})
    assert "within 16 integers of zero" in found["unused-range", "x"]


def test_a_range_of_nothing_that_no_image_showed():
    dead = given_ranges({"x": 0})
    mod = network(tame())
    fitted = fit(dead, {"x": "s8"})
    assert "no image says so" in hazards(mod, fitted.entries)["no-range", "x"]
    assert ("no-range", "x") not in hazards(mod, {"x": entry(0, 0)})
    assert "but values reach 4" in hazards(mod, {"x": entry(0, 0, (-2, 4))})["no-range", "x"]


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_images_of_one_value(value):
    mod = network(tame())
    found = hazards(mod, {"x": entry(0, value, (value, value)), "y": entry(0, 0)})
    assert f"it is {value:g} everywhere on all calibration images" in found["constant", "x"]
    assert ("constant", "y") not in found  # it follows from the input's
    found = hazards(mod, {"x": entry(-1, 1), "y": entry(0, 0)})
    assert found.keys() == {("constant", "y")}


@pytest.mark.parametrize("kind", UNCALIBRATED)
def test_ranges_that_mean_nothing_are_an_error_where_that_is_asked_for(kind):
    hazard = Hazard(kind=kind, name="x", message="it is 0 everywhere")
    with pytest.raises(
        CalibrationError, match=r"strict .*: x: it is 0 everywhere; give other images"
    ):
        require_calibrated([hazard])
    require_calibrated([Hazard(kind="few-images", name="", message="")])


def test_values_that_are_not_finite():
    item = entry(-1, 1)
    item = dataclasses.replace(item, observed=dataclasses.replace(item.observed, nonfinite=3))
    assert "3 values were NaN" in hazards(network(tame()), {"x": item})["not-finite", "x"]


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_read_whole(name):
    kinds = {kind for kind, _ in hazards(NETWORKS[name]())}
    assert kinds <= {"int16-saturation"}
