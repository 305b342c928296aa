"""Compiled depthwise convolutions of whole numbers: the bits that NumPy gives, tap after tap."""

from typing import Any

import numpy as np
import pytest

from relay_int8.graph.plan import Plan
from relay_int8.operators import depthwise_program
from relay_int8.operators.conv2d import _depthwise
from relay_int8.operators.depthwise_program import depthwise_products, pays
from relay_int8.operators.images import windows
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.simulation import Simulation
from tests.small_networks import NETWORKS, any_params, images

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "narrow": {"size": (6, 2)},
    "wide": {"size": (3, 41)},
    "strided": {"strides": (2, 3), "padding": (0, 2)},
    "dilated": {"kernel": (5, 3), "dilation": (2, 3), "padding": (3, 1)},
    "left over": {"kernel": (1, 1), "strides": (2, 2), "padding": (0, 0)},
    "padding past the last tap": {"size": (6, 6), "strides": (3, 3), "padding": (1, 1)},
}


@pytest.mark.parametrize("name", CASES)
def test_equals_numpy(name: str):
    fields = {
        "kernel": (3, 3), "strides": (1, 1), "padding": (1, 1), "dilation": (1, 1), "size": (8, 9),
        **CASES[name],
    }  # fmt: skip
    rng = np.random.default_rng(5)
    x = rng.integers(-255, 256, (2, 5, *fields["size"])).astype(np.float32)
    w = rng.integers(-127, 128, (5, 1, *fields["kernel"])).astype(np.float32)
    height, width = (
        (fields["size"][i] + 2 * fields["padding"][i] - fields["dilation"][i] * (taps - 1) - 1)
        // fields["strides"][i]
        + 1
        for i, taps in enumerate(fields["kernel"])
    )
    expected = _depthwise(windows(x, fields, (height, width), 0.0), w)
    found = depthwise_products(x, w, fields, (height, width))
    np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


@pytest.mark.fast
def test_only_large_layers_of_one_result_a_channel_are_compiled():
    layer = {"in_channels": 64, "out_channels": 64, "groups": 64, "kernel": (4, 4)}
    assert pays(layer, (8, 8))
    assert not pays(layer, (7, 9))
    assert not pays(layer | {"groups": 32}, (8, 8))
    assert not pays(layer | {"out_channels": 128}, (8, 8))
    assert not pays(layer | {"in_channels": 128}, (8, 8))
    assert not pays(layer | {"kernel": (5, 10)}, (8, 8))


def test_a_network_has_the_same_bits(monkeypatch: pytest.MonkeyPatch):
    mod = NETWORKS["depthwise"]()
    plan: Plan = annotate(mod, QuantConfig())
    simulation = Simulation(plan=plan, params=any_params(plan))
    inputs = {"x": np.concatenate(images(mod, 2))}
    compiled: list[tuple[int, ...]] = []

    def noted(*arguments: Any) -> np.ndarray:
        compiled.append(arguments[0].shape)
        return depthwise_products(*arguments)

    monkeypatch.setattr("relay_int8.operators.conv2d.depthwise_products", noted)
    found = []
    for least in (2**30, 0):
        monkeypatch.setattr(depthwise_program, "LEAST_PRODUCTS", least)
        assert not compiled
        found.append(NumpyNetwork(mod, plan.additions).run(inputs, simulation))
    assert compiled
    for name, expected in found[0].items():
        np.testing.assert_array_equal(found[1][name].view(np.int32), expected.view(np.int32))
