"""Weights and biases chosen layer by layer, and ranges by the next layers' outputs."""

import numpy as np
import pytest

from relay_int8.compiler.kernel_library import sharing_kernels
from relay_int8.errors import ConfigError
from relay_int8.graph.groups import find_groups
from relay_int8.numerics.snr import snr_db
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig, Tools
from relay_int8.quantization.quantize import quantize
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.reconstruct import reconstruct
from relay_int8.quantization.refine.simulation import Simulation
from tests.quantization.test_bias_correction import dataset, network, pictures
from tests.reference import run
from tests.small_networks import any_params


@pytest.fixture(scope="module")
@sharing_kernels()
def ratios():
    """Return the signal-to-noise ratio of the integer network by tools, and its models."""
    mod, x = network(True), pictures(40)
    reference = NumpyNetwork(mod).run({"x": x})["logits"]
    found = {}
    for name, tools in {
        "none": Tools(correction="none"),
        "empirical": Tools(correction="empirical"),
        "descent": Tools(correction="empirical", rounding="descent"),
        "adaround": Tools(correction="empirical", rounding="adaround"),
        "thresholds": Tools(thresholds="output-error"),
        "smooth": Tools(equalization="smooth"),
        "cross-layer": Tools(equalization="cross-layer"),
    }.items():
        quantized = quantize(mod, dataset(x), QuantConfig(tools=tools))
        logits = np.concatenate([run(quantized.mod, {"x": image[None]})["logits"] for image in x])
        found[name] = snr_db(reference, logits), quantized
    return found


def test_each_tool_helps(ratios):
    found = {name: ratio for name, (ratio, _) in ratios.items()}
    assert found["empirical"] > found["none"] + 1
    assert found["descent"] > found["empirical"]
    assert found["adaround"] > found["empirical"]


def test_every_layer_is_in_integers(ratios):
    for _, quantized in ratios.values():
        assert all(layer.integer for layer in quantized.plan.layers if layer.macs)


@pytest.mark.parametrize("name", ["empirical", "descent", "adaround"])
def test_chosen_integers_are_the_ones_that_run(ratios, name):
    """The weights that were chosen are multiples of the scale that InsertQdq finds for them."""
    groups = find_groups(ratios[name][1].mod["main"])
    layers = [group for group in groups if group.weight and group.weight.scale is not None]
    assert [layer.kind for layer in layers] == ["conv2d", "conv2d", "dense"]
    for layer in layers:
        rows = layer.weight_rows
        steps = rows / layer.weight.scale.reshape(-1, *(1,) * (rows.ndim - 1))
        assert np.abs(steps - np.rint(steps)).max() < 1e-3
        assert np.abs(steps).max() == pytest.approx(127, abs=1e-3)


def test_wide_layers_keep_weights_rounded_to_nearest():
    mod, images = network(True), [{"x": image[None]} for image in pictures(8)]
    plan = annotate(mod, QuantConfig())
    float_network, simulation = NumpyNetwork(mod), Simulation(plan=plan, params=any_params(plan))

    def chosen(rounding: str, largest_k: int) -> dict[str, np.ndarray]:
        layers = reconstruct(
            float_network, simulation, images, rounding=rounding, largest_k=largest_k
        )
        return {name: weights.integers for name, weights in layers.weights.items()}

    nearest = chosen("nearest", 10**6)
    sizes = {name: integers[0].size for name, integers in nearest.items()}
    widest = [name for name, size in sizes.items() if size == max(sizes.values())]
    assert widest == ["d/relu"]
    for largest_k, is_kept in ((sizes["d/relu"] - 1, True), (sizes["d/relu"], False)):
        integers = chosen("descent", largest_k)["d/relu"]
        assert np.array_equal(integers, nearest["d/relu"]) == is_kept


def test_what_needs_images_refuses_a_table(ratios):
    table = ratios["none"][1].table
    for tools in (Tools(equalization="smooth"), Tools(correction="empirical")):
        with pytest.raises(ConfigError, match="looks at calibration images"):
            quantize(network(True), table, QuantConfig(tools=tools))
    with pytest.raises(ConfigError, match="preset auto looks at"):
        quantize(network(True), table, QuantConfig(preset="auto"))


@pytest.mark.fast
def test_settings_are_checked():
    with pytest.raises(ConfigError, match="rounding 'up' is unknown; choose one of nearest"):
        Tools(rounding="up")
    with pytest.raises(ConfigError, match='needs the correction "empirical"'):
        Tools(rounding="descent")
