"""Caches of keys and values: what goes through a network is returned as exact as it came."""

import numpy as np
import onnx
import pytest
from onnx import helper

import relay_int8
from relay_int8 import QuantConfig
from relay_int8.api.model import Model
from relay_int8.api.quantize import Quantized
from relay_int8.frontend.onnx import import_onnx
from relay_int8.quantization.kept_float.states import REASON
from tests.onnx_models import model
from tests.reference import run

PAST, TOKENS, HEADS, WIDTH = 11, 3, 2, 8
CHANNELS = HEADS * WIDTH
NODES = (
    ("MatMul", ["x", "Wq"], "q/rows", {}),
    ("MatMul", ["x", "Wk"], "k/rows", {}),
    ("MatMul", ["x", "Wv"], "v/rows", {}),
    ("Reshape", ["q/rows", "heads"], "q/cut", {}),
    ("Reshape", ["k/rows", "heads"], "k/cut", {}),
    ("Reshape", ["v/rows", "heads"], "v/cut", {}),
    ("Transpose", ["q/cut"], "q", {"perm": [0, 2, 1, 3]}),
    ("Transpose", ["k/cut"], "k", {"perm": [0, 2, 1, 3]}),
    ("Transpose", ["v/cut"], "v", {"perm": [0, 2, 1, 3]}),
    ("Concat", ["past_k", "k"], "present_k", {"axis": 2}),
    ("Concat", ["past_v", "v"], "present_v", {"axis": 2}),
    ("Transpose", ["present_k"], "keys", {"perm": [0, 1, 3, 2]}),
    ("MatMul", ["q", "keys"], "scores", {}),
    ("Softmax", ["scores"], "shares", {"axis": -1}),
    ("MatMul", ["shares", "present_v"], "mixed", {}),
    ("Transpose", ["mixed"], "turned", {"perm": [0, 2, 1, 3]}),
    ("Reshape", ["turned", "joined"], "rows", {}),
    ("MatMul", ["rows", "Wo"], "y", {}),
)


def decoder(*returned: str) -> onnx.ModelProto:
    """Return a step of attention over a cache; ``returned`` are outputs beside ``y``."""
    rng = np.random.default_rng(0)
    weights = {
        name: rng.normal(0, CHANNELS**-0.5, (CHANNELS, CHANNELS)).astype("float32")
        for name in ("Wq", "Wk", "Wv", "Wo")
    }
    weights["heads"] = np.array([1, TOKENS, HEADS, WIDTH])
    weights["joined"] = np.array([1, TOKENS, CHANNELS])
    nodes = [helper.make_node(op, reads, [y], **more) for op, reads, y, more in NODES]
    past = (1, HEADS, PAST, WIDTH)
    inputs = {"x": (1, TOKENS, CHANNELS), "past_k": past, "past_v": past}
    return model(nodes, inputs, dict.fromkeys(("y", *returned)), weights)


def images(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    past = (1, HEADS, PAST, WIDTH)
    shapes = {"x": (1, TOKENS, CHANNELS), "past_k": past, "past_v": past}
    return [
        {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
        for _ in range(count)
    ]


def quantized(*returned: str) -> Quantized:
    return relay_int8.quantize(
        Model(module=import_onnx(decoder(*returned))), images(8, 0), QuantConfig()
    )


@pytest.mark.fast
def test_a_cache_that_is_returned_is_joined_in_float():
    made = quantized("present_k")
    layers = {layer.name: layer for layer in made.network.plan.layers}
    assert layers["present_k"].reason == REASON
    assert layers["present_k"].cause == "unneeded"
    assert layers["present_v"].integer  # nothing but attention reads it
    assert any(layer.kind == "attention" and layer.integer for layer in layers.values())


@pytest.mark.fast
def test_the_past_comes_back_bit_for_bit():
    given = images(1, 1)[0]
    made = quantized("present_k", "present_v")
    outputs = run(made.network.mod, given)
    for name in ("k", "v"):
        np.testing.assert_array_equal(
            outputs[f"present_{name}"][:, :, :PAST], given[f"past_{name}"]
        )


def test_the_built_network_returns_it_too(tmp_path):
    given = images(1, 1)[0]
    made = quantized("present_k", "present_v")
    relay_int8.build(made).save(tmp_path / "network.ri8")
    outputs = relay_int8.load(tmp_path / "network.ri8").run(given)
    expected = run(made.network.mod, given)
    for name in ("k", "v"):
        np.testing.assert_array_equal(
            outputs[f"present_{name}"][:, :, :PAST], given[f"past_{name}"]
        )
        np.testing.assert_array_equal(outputs[f"present_{name}"], expected[f"present_{name}"])
    np.testing.assert_allclose(outputs["y"], expected["y"], rtol=1e-5, atol=1e-5)
