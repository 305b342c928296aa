"""Thresholds shared forward through moves, and backward through leaky activations when asked."""

import numpy as np
import pytest

from relay_int8.calibration import open_data
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig, Tools
from relay_int8.quantization.quantize import quantize
from tests.reference import run
from tests.small_networks import activations, images, moves

UNIFIED = QuantConfig(preset="int8", tools=Tools(unify=True))


@pytest.mark.fast
def test_leaky_activations_pass_their_range_back():
    plan = annotate(activations(), UNIFIED)
    plain = annotate(activations(), QuantConfig())
    assert {name: item.like for name, item in plain.tensors.items() if item.like != name} == {}
    shared = {name: item.like for name, item in plan.tensors.items() if item.like != name}
    assert shared == {"d": "f", "e": "f"}  # d -> leaky e -> prelu f -> relu g, which is unsigned
    assert plan.tensors["f"].scheme == "s8" and plan.tensors["g"].scheme == "u8"


@pytest.mark.fast
def test_moves_pass_their_range_on():
    plan = annotate(moves(), QuantConfig())
    assert plan.tensors["padded"].like == plan.tensors["a"].like == "a"


def test_a_unified_network_is_close_to_float():
    mod = activations()
    data = open_data(
        [np.concatenate(images(mod, 20))],
        [TensorInfo(name="x", shape=(-1, 3, 12, 11), dtype="float32")],
    )
    found = {}
    for config in (QuantConfig(), UNIFIED):
        quantized = quantize(mod, data, config)
        found[config] = run(quantized.mod, {"x": images(mod)[0]})["i"]
    plain, unified = found.values()
    assert not np.array_equal(plain, unified)
    assert np.abs(plain - unified).max() < 0.1 * np.abs(plain).max()
