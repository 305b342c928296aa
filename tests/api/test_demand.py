"""Accuracy on demand: what is left in float for it, and what is refused."""

import dataclasses

import numpy as np
import onnx
import pytest
from rich.console import Console

import relay_int8
from relay_int8 import Demand, QuantConfig, Report
from relay_int8.api import meet_demand
from relay_int8.cli.summary import print_summary
from relay_int8.errors import AccuracyError, ConfigError
from relay_int8.notices import Notice
from relay_int8.numerics.snr import snr_db
from tests.reference import run
from tests.wide_network import HARMED, HARMED_ROOT, OUTPUT, wide_images, wide_network

CONFIG = QuantConfig(method="max")  # one pass over the data


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("wide") / "wide.onnx"
    onnx.save(wide_network(), path)
    return relay_int8.load_model(path)


@pytest.fixture(scope="module")
def fp32(model):
    network = relay_int8.float_network(model)
    return lambda images: np.concatenate([network({"x": x[None]})[OUTPUT] for x in images])


@pytest.fixture(scope="module")
def data(fp32):
    """Return (calibration images, images to measure on, their labels: what FP32 says)."""
    x = wide_images(100, seed=1)
    return wide_images(40), x, fp32(x).argmax(axis=1)


@pytest.fixture(scope="module")
def spared(model, data):
    calibration, x, labels = data
    demand = Demand(max_drop=2, labels=labels, data=x)
    return relay_int8.quantize(model, calibration, CONFIG, demand=demand)


def test_the_layer_that_integers_harm_is_left_in_float(spared, model, data):
    met = spared.met
    assert met.floats == (HARMED,)
    assert met.demand == "top-1 at most 2 percentage points below FP32"
    assert (met.measure, met.images, met.held_out) == ("top-1", 100, False)
    assert met.fp32 == 1 and met.int8 < 0.9 and met.reached >= 0.98
    assert met.float_macs == pytest.approx(64 * 36 / ((32 + 64 + 64) * 36 + 40))
    assert [layer.name for layer in spared.network.plan.layers if not layer.integer] == [HARMED]
    by_hand = relay_int8.quantize(model, data[0], QuantConfig(method="max", exclude=(HARMED_ROOT,)))
    assert by_hand.network.digest == spared.digest


def test_what_was_measured_is_what_is_kept(spared, data):
    _, x, labels = data
    right = [run(spared.network.mod, {"x": x[i : i + 1]})[OUTPUT].argmax() == labels[i]
             for i in range(40)]  # fmt: skip
    assert np.mean(right) > 0.95


def test_the_report_says_how(spared):
    report = relay_int8.build(spared).report
    assert report.demand == spared.met.to_dict()
    again = Report.from_json(report.to_json())
    assert again.demand["floats"] == [HARMED]
    console = Console(record=True, width=200)
    print_summary(again, console)
    text = console.export_text()
    assert "top-1 at most 2 percentage points below FP32, on 100 images" in text
    assert f"1 layers, {spared.met.float_macs:.2%} of the MACs: {HARMED}" in text
    assert f"all in integers {spared.met.int8:.4f}" in text


def test_decibels_on_calibration_images_that_were_held_out(model, fp32):
    images = wide_images(30, seed=2)
    made = relay_int8.quantize(model, [images], CONFIG, demand=Demand(min_snr_db=12))
    met = made.met
    assert met.int8 < 12 <= met.reached and HARMED in met.floats and met.fp32 == float("inf")
    assert (met.images, met.held_out, made.table.images) == (15, True, 15)
    held = images[1::2]
    found = np.concatenate([run(made.network.mod, {"x": x[None]})[OUTPUT] for x in held])
    assert snr_db(fp32(held), found) == pytest.approx(met.reached, abs=0.01)
    rows = Report(model="m", digest="", demand=met.to_dict())
    again = Report.from_json(rows.to_json())  # an infinite ratio is text there
    console = Console(record=True, width=200)
    print_summary(again, console)
    assert "on 15 calibration images held out" in console.export_text()


def test_a_metric_of_the_user(model, data):
    calibration, x, labels = data
    lengths = []

    def right(outputs, rights):
        pairs = [(y[OUTPUT].argmax(), label) for y, label in zip(outputs, rights, strict=True)]
        lengths.append(len(pairs))
        return np.float32(np.mean([found == label for found, label in pairs]))

    demand = Demand(metric=right, minimum=0.97, data=[x], labels=list(labels))
    made = relay_int8.quantize(model, calibration, CONFIG, demand=demand)
    assert made.met.floats == (HARMED,) and made.met.measure == "right"
    assert made.met.demand == "right at least 0.97"
    assert lengths == [100] * 3  # FP32, all in integers, one layer in float


def test_a_metric_that_compares_with_fp32(model, fp32):
    """Without data of its own, on every second calibration image; its name says it is a share."""
    images = wide_images(60, seed=2)
    demand = Demand(metric="agreement", max_drop=5)
    assert str(demand) == "agreement at most 5 percentage points below FP32"
    met = relay_int8.quantize(model, images, CONFIG, demand=demand).met
    assert (met.measure, met.images, met.held_out) == ("agreement", 30, True)
    assert met.fp32 == 1 and met.int8 < 0.95 <= met.reached and HARMED in met.floats


def test_a_demand_that_integers_meet_costs_nothing(model, data):
    calibration, x, labels = data
    demand = Demand(max_drop=90, labels=labels, data=x)
    made = relay_int8.quantize(model, calibration, CONFIG, demand=demand)
    assert made.met.floats == () and made.met.measurements == 1
    assert made.met.reached == made.met.int8 < 1
    assert made.network.config.exclude == ()


def test_nothing_in_integers_is_said(model, monkeypatch):
    def everything(order, macs, holds):
        assert holds(order)
        return order

    monkeypatch.setattr(meet_demand, "fewest_floats", everything)
    demand = Demand(min_snr_db=300)
    with pytest.warns(Notice, match="every layer is in float for it"):
        made = relay_int8.quantize(model, wide_images(24), CONFIG, demand=demand)
    assert made.met.float_macs == 1


def never(outputs, references):
    raise KeyError("boxes")


def metric_of(first, then):
    """Return a metric that gives ``first``, and from the second call on ``then``."""
    values = iter([first])

    def metric(outputs, _):
        assert len(list(outputs)) == 4
        return next(values, then)

    return metric


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        (never, "the metric never raised KeyError: 'boxes'; it is called with two"),
        (metric_of(float("nan"), 0), "the metric metric returned nan; a finite number"),
        (metric_of(None, 0), "the metric metric returned a NoneType; a number is"),
        (metric_of(1.0, float("nan")), "the metric metric returned nan"),
    ],
)
def test_metrics_that_fail(model, metric, message):
    demand = Demand(metric=metric, max_drop=0.1, data=wide_images(4))
    with pytest.raises(ConfigError, match=message):
        relay_int8.quantize(model, wide_images(8), CONFIG, demand=demand)


def test_demands_that_nothing_meets(model, monkeypatch):
    demand = Demand(metric=metric_of(0.5, 0), minimum=0.6, data=wide_images(4))
    with pytest.raises(AccuracyError, match=r"at least 0\.6 is demanded, and FP32 itself has 0\.5"):
        relay_int8.quantize(model, wide_images(8), CONFIG, demand=demand)
    demand = Demand(metric=metric_of(0.7, 0.5), minimum=0.6, data=wide_images(4))
    monkeypatch.setattr(meet_demand, "by_harm", lambda *_: (HARMED,))
    message = (
        r"all in integers the network has 0\.5, with all 1 layers in float 0\.5 \(FP32: 0\.7\)"
    )
    with pytest.raises(AccuracyError, match=message):
        relay_int8.quantize(model, wide_images(8), CONFIG, demand=demand)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "none of max_drop, minimum, min_snr_db given"),
        ({"max_drop": 1, "min_snr_db": 20}, "max_drop and min_snr_db of .* given"),
        ({"max_drop": 1}, "neither of labels and metric given"),
        ({"max_drop": -1, "labels": [1]}, "max_drop is -1; give how far"),
        ({"min_snr_db": float("nan")}, "min_snr_db is nan; give a finite number"),
        ({"min_snr_db": 20, "labels": [1]}, "needs no labels"),
        ({"min_snr_db": 20, "metric": max}, "needs no metric"),
        ({"max_drop": 1, "labels": [1], "metric": "agreement"}, "takes no labels"),
        ({"max_drop": 1, "metric": "mean-iou"}, "mean-iou needs labels"),
        ({"minimum": 1, "metric": "miou"}, "metric 'miou' is unknown; choose one of top-1"),
        ({"minimum": 1, "metric": 1}, "metric is a int; give a function"),
        ({"minimum": 2, "metric": "agreement"}, "minimum is 2; agreement is a fraction"),
        ({"minimum": 61.5, "labels": [1]}, r"minimum is 61\.5; top-1 is a fraction"),
    ],
)
def test_demands_that_make_no_sense(fields, message):
    with pytest.raises(ConfigError, match=message):
        Demand(**fields)


@pytest.mark.fast
def test_a_share_of_images_is_compared_as_one():
    demand = Demand(max_drop=1, labels=np.zeros(200, int))
    assert demand.holds(0.605, 0.615) and not demand.holds(0.6, 0.615)


def test_what_does_not_go_with_a_demand(model, spared):
    snr, x = Demand(min_snr_db=20), wide_images(8)
    with pytest.raises(ConfigError, match="ranges come from a table: there are no images"):
        relay_int8.quantize(model, spared.table, demand=snr)
    with pytest.raises(ConfigError, match="there is one alone"):
        relay_int8.quantize(model, x[:1], demand=snr)
    with pytest.raises(ConfigError, match="int8 is required of every layer"):
        relay_int8.quantize(model, x, QuantConfig(require_int8=True), demand=snr)
    adopted = dataclasses.replace(model, module=spared.network.mod)
    with pytest.raises(ConfigError, match="quantized already and keeps its own scales"):
        relay_int8.quantize(adopted, None, demand=snr)
    for labels, message in (
        (
            np.zeros(4, int),
            "8 images, but 4 labels; give one for each image of the calibration data",
        ),
        (np.zeros(8), "labels are float64, integers expected"),
        (np.full(8, 9), "label 9 found, but the output has 5 values"),
    ):
        with pytest.raises(ConfigError, match=message):
            relay_int8.quantize(model, x, demand=Demand(max_drop=1, labels=labels))


def test_what_does_not_go_with_a_metric(model, spared):
    x, auto = wide_images(8), QuantConfig(preset="auto")
    with pytest.raises(ConfigError, match="no metric that looks at them"):
        relay_int8.quantize(model, x, auto, labels=[1] * 8)
    with pytest.raises(ConfigError, match="metric agreement was given, and preset int8-asymmetric"):
        relay_int8.quantize(model, x, metric="agreement")
    with pytest.raises(ConfigError, match="8 images, but 7 labels; give one for each image of the"):
        relay_int8.quantize(model, x, auto, metric="top-1", labels=[1] * 7)
    with pytest.raises(ConfigError, match="looks at calibration images"):
        relay_int8.quantize(model, spared.table, auto, metric="agreement")
    adopted = dataclasses.replace(model, module=spared.network.mod)
    with pytest.raises(ConfigError, match="metric agreement was given, but the model is quantized"):
        relay_int8.quantize(adopted, None, auto, metric="agreement")


def test_a_metric_that_fails_loses_nothing(tmp_path):
    path, before = tmp_path / "wide.ri8", b"an artifact of before"
    path.write_bytes(before)
    onnx.save(wide_network(), tmp_path / "wide.onnx")
    with pytest.raises(ConfigError, match="the metric never raised KeyError: 'boxes'"):
        relay_int8.compile_model(
            tmp_path / "wide.onnx",
            wide_images(8),
            path,
            config=QuantConfig(preset="auto"),
            metric=never,
        )
    assert path.read_bytes() == before


def test_auto_by_a_metric_and_a_demand_share_the_images(model, fp32):
    """Every second image is measured on; auto goes by the others, with their labels."""
    images = wide_images(48, seed=2)
    labels = fp32(images).argmax(axis=1)
    given = []

    def right(outputs, rights):
        pairs = [(y[OUTPUT].argmax(), label) for y, label in zip(outputs, rights, strict=True)]
        given.append(sorted(label for _, label in pairs))
        return float(np.mean([found == label for found, label in pairs]))

    demand = Demand(max_drop=0.5, metric=right, labels=labels)
    made = relay_int8.quantize(
        model, images, QuantConfig(preset="auto"), metric=right, labels=labels, demand=demand
    )
    scores = made.network.metric_scores
    assert scores.fp32 == 1 and scores.images == 24 and made.met.fp32 == 1
    assert given[0] == sorted(labels[1::2])  # FP32, for the demand
    assert sorted(given[1] + given[2]) == sorted(labels[::2])
    assert "right, on 24 images not seen: FP32 1.0000" in made.network.settings["metric"]
