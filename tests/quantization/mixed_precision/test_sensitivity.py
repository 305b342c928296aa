"""Which layers cost accuracy, and plans that spare the worst ones."""

import json

import numpy as np
import pytest

from relay_int8.api import sensitivity as api
from relay_int8.api.model import Model, load_model
from relay_int8.api.sensitivity import analyze_layers, sensitivity_json
from relay_int8.calibration.table import CalibrationTable
from relay_int8.compiler.pipeline import normalize
from relay_int8.demo import MODEL, load_images
from relay_int8.errors import ConfigError, RecordError
from relay_int8.frontend.options import ImportOptions
from relay_int8.graph.digest import float_digest
from relay_int8.graph.plan import LayerPlan, Plan
from relay_int8.numerics.snr import snr_db
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.mixed_precision import verified
from relay_int8.quantization.mixed_precision.choice import Budget, search
from relay_int8.quantization.mixed_precision.costs import KernelCosts, measure_costs
from relay_int8.quantization.mixed_precision.sensitivity import (
    Fit,
    LayerSensitivity,
    Sensitivity,
    Variants,
    measure_sensitivity,
    simulation_of,
)
from relay_int8.quantization.plan_file import read_plan, save_plan, with_plan
from relay_int8.quantization.quantize import planned_with_floats, quantize
from relay_int8.quantization.quantized_model import QuantizedModel
from relay_int8.quantization.refine.network import NumpyNetwork
from schedules.targets import native_target
from tests.quantization.test_bias_correction import dataset, network, pictures
from tests.reference import run
from tests.small_networks import depthwise

CONFIG = QuantConfig(method="max")


@pytest.fixture(scope="module")
def variants():
    quantized = quantize(network(True), dataset(pictures(24)), CONFIG)
    return Variants(quantized, list(dataset(pictures(24))), 12)


@pytest.fixture(scope="module")
def sensitivity(variants):
    return measure_sensitivity(variants)


def test_the_simulation_of_a_model_is_the_model(variants):
    quantized = variants.quantized
    simulated = NumpyNetwork(quantized.reference)
    x = pictures(6)
    found = simulated.run({"x": x}, simulation_of(quantized))["logits"]
    wanted = [run(quantized.mod, {"x": image[None]})["logits"] for image in x]
    assert snr_db(np.concatenate(wanted), found) > 50


def test_every_layer_is_measured(variants, sensitivity):
    assert [layer.name for layer in sensitivity.layers] == ["d/relu", "e", "logits"]
    assert sensitivity.samples == 12
    whole = sensitivity.whole.snr_db
    for layer in sensitivity.layers:
        assert layer.alone.snr_db > whole - 3  # errors may also cancel
        assert 0 <= layer.without.agreement <= 1
    assert max(layer.without.snr_db for layer in sensitivity.layers) > whole
    texts = json.loads(sensitivity_json(sensitivity))
    assert len(texts["layers"]) == 3


def test_nothing_in_integers_is_exact(variants):
    names = [layer.name for layer in variants.layers]
    assert variants.fit(variants.plan(names)) == Fit(snr_db=float("inf"), agreement=1.0)


@pytest.mark.fast
def test_a_layer_that_ends_in_a_residual_addition_goes_to_float_whole():
    """Its name is the addition's, and excluding that leaves the convolution in integers."""
    mod = normalize()(depthwise())
    base = annotate(mod, CONFIG)
    table = CalibrationTable(entries={})
    quantized = QuantizedModel(
        mod=mod, reference=mod, plan=base, table=table, digest="", model_hash="", config=CONFIG
    )
    layer = next(layer for layer in base.layers if layer.name == "s")
    assert layer.kind == "conv2d" and layer.root != "s"
    config, plan = planned_with_floats(quantized, ["s"])
    assert config.exclude == plan.exclusions == (layer.root,)
    assert [(one.name, one.macs) for one in plan.layers if not one.integer] == [("s", layer.macs)]
    assert annotate(mod, config).layers == plan.layers


def flat(value):
    """Return costs by which every kernel takes as long."""
    layers = ["d/relu", "e", "logits", "a", "pool", "flat"]
    times = dict.fromkeys(layers, value)
    tensors = dict.fromkeys(["x", "a", "d/relu", "e", "pool", "flat"], 1.0)
    return KernelCosts(
        integer=times,
        floating=dict.fromkeys(layers, 3 * value),
        quantize=tensors,
        dequantize=tensors,
    )


def test_conversions_count(variants):
    """With the first layers in float the input is not quantized, but what comes after them is."""
    costs = flat(10.0)
    quantized = variants.quantized
    whole = costs.of(quantized, quantized.plan)
    middle = costs.of(quantized, variants.plan(["e"]))
    assert middle != whole
    everything = costs.of(quantized, variants.plan(["d/relu", "e", "logits"]))
    assert everything == pytest.approx(
        sum(costs.floating[n] for n in costs.floating if n in _layers(quantized))
    )


def _layers(quantized):
    return {layer.name for layer in quantized.plan.layers}


def test_the_search_reaches_its_budget(variants, sensitivity):
    costs = flat(10.0)
    whole = sensitivity.whole.snr_db
    free = search(variants, sensitivity, costs, Budget(snr_db=whole - 1))
    assert free.floats == () and free.holds
    some = search(variants, sensitivity, costs, Budget(snr_db=whole + 1))
    assert some.holds and some.fit.snr_db >= whole + 1
    assert 0 < len(some.floats) <= 3
    for name in some.floats:  # none of them can be spared
        fewer = [other for other in some.floats if other != name]
        fit = variants.fit(variants.plan(fewer))
        cheaper = costs.of(variants.quantized, variants.plan(fewer)) <= some.time_us
        assert fit.snr_db < whole + 1 or not cheaper


@pytest.mark.slow
def test_a_plan_holds_in_the_network_quantized_anew(monkeypatch, full):
    """Where it does not, since factors of channels are others there, the search goes on.

    The four layers that are faster in float reach 45 dB with the factors of the all-integer
    network, and 44.3 dB quantized anew.
    """
    if not full:
        pytest.skip("needs --full")
    integer = dict.fromkeys(("stem.relu", "block1.relu", "block1.1.relu", "logits"), 1.0)
    floating = dict.fromkeys((f"block{at}.relu" for at in ("2", "2.1", "3", "3.1")), 100.0)
    floating["block2.2.norm"] = 100.0
    costs = KernelCosts(integer=integer, floating=floating, quantize={}, dequantize={})
    monkeypatch.setattr(api, "measure_costs", lambda *_: costs)
    monkeypatch.setattr(api, "run_times_ms", lambda mods, _: [1.0 for _ in mods])
    asked = []
    monkeypatch.setattr(
        verified, "search", lambda *args: asked.append(args[3].snr_db) or search(*args)
    )
    data = load_images().calibration[:40]
    found = analyze_layers(
        load_model(MODEL, ImportOptions(batch=1)), data, budget=Budget(snr_db=45), samples=8
    )
    assert len(asked) > 1 and asked == sorted(asked)
    assert found.verified.holds and found.verified.fit.snr_db >= 45
    assert len(found.verified.mixed.floats) < len(found.sensitivity.layers)


def test_measured_costs(variants):
    costs = measure_costs(variants.quantized, native_target())
    for layer in variants.layers:
        assert costs.integer[layer.name] > 0
        assert costs.floating[layer.name] > 0
    tensors = set(variants.quantized.plan.tensors)
    assert set(costs.quantize) == set(costs.dequantize) == tensors
    assert min(*costs.quantize.values(), *costs.dequantize.values()) > 0


@pytest.mark.slow
def test_a_plan_is_found_saved_edited_and_used(tmp_path, full):
    if not full:
        pytest.skip("needs --full")
    mod, data = network(True), dataset(pictures(24))
    base = quantize(mod, data, CONFIG)
    whole = Variants(base, data, 12).fit(base.plan).snr_db
    budget = Budget(snr_db=whole + 1)
    found = analyze_layers(Model(module=mod), data, config=CONFIG, budget=budget, samples=12)
    verified = found.verified
    assert verified.holds and verified.fit.snr_db >= whole + 1
    assert set(verified.latency_ms) == {"int8", "mixed", "float32"}
    path = tmp_path / "plan.json"
    save_plan(verified.model.plan, path)
    exclude = read_plan(path).exclusions
    roots = {layer.name: layer.root for layer in base.plan.layers}
    assert set(exclude) == {roots[name] for name in verified.mixed.floats}
    again = quantize(mod, data, QuantConfig(method="max", exclude=exclude))
    assert again.digest == verified.model.digest

    document = json.loads(path.read_text())
    for layer in document["layers"]:
        if layer["root"] in exclude:
            layer["reason"] = None
        if layer["name"] == "logits":
            layer["reason"] = "too coarse"
    path.write_text(json.dumps(document))
    assert read_plan(path).exclusions == (roots["logits"],)


@pytest.mark.fast
def test_what_is_no_plan(tmp_path):
    for text in ("{", "[]", '{"tensors": {}, "layers": [{"nome": 1}]}'):
        (tmp_path / "plan.json").write_text(text)
        with pytest.raises(RecordError, match="not a plan of relay-int8"):
            read_plan(tmp_path / "plan.json")


def test_a_plan_of_another_model_is_refused(tmp_path):
    """By its hash; one that was written by hand has none, and is refused for unknown names."""
    path, mod = tmp_path / "plan.json", network(True)
    first = next(layer.name for layer in annotate(normalize()(mod), CONFIG).layers)

    def saved(name, model_hash):
        layer = LayerPlan(name=name, root=name, kind="conv2d", macs=1, reason="by hand")
        save_plan(Plan(tensors={}, layers=(layer,), model_hash=model_hash), path)

    for model_hash in ("", float_digest(normalize()(mod))):
        saved(first, model_hash)
        assert with_plan(QuantConfig(exclude=("a",)), path, mod).exclude == ("a", first)
    saved(first, "ab" * 32)
    with pytest.raises(RecordError, match=r"plan\.json: made for model abababababab, this is"):
        with_plan(CONFIG, path, mod)
    saved("elsewhere", "")
    with pytest.raises(ConfigError, match=r"plan\.json: exclude elsewhere: no layer has"):
        with_plan(CONFIG, path, mod)


@pytest.mark.fast
def test_budgets():
    with pytest.raises(ConfigError, match="no accuracy is asked for"):
        Budget()
    with pytest.raises(ConfigError, match="SNR nan dB asked for"):
        Budget(snr_db=float("nan"))
    with pytest.raises(ConfigError, match=r"agreement 99.0 asked for"):
        Budget(agreement=99.0)
    fit = Fit(snr_db=30.0, agreement=0.98)
    assert Budget(snr_db=30.0).holds(fit)
    assert not Budget(snr_db=20.0, agreement=0.99).holds(fit)
    one = LayerSensitivity(name="a", kind="conv2d", macs=1, alone=fit, without=fit)
    assert Sensitivity(whole=fit, layers=(one,), samples=1).layers[0].without == fit
