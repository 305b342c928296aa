"""Poolings whose maxima's positions are asked for compare floats."""

import numpy as np
import onnx
import pytest
from onnx import helper

import relay_int8
from relay_int8.api.model import Model
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.plan import Plan
from relay_int8.quantization.kept_float.maxima import REASON
from tests.onnx_models import model

SIZE, CHANNELS = 12, 6


def network(*, unpooled: bool) -> onnx.ModelProto:
    """Return conv -> relu -> max pooling -> conv -> (unpooling ->) conv."""
    rng = np.random.default_rng(0)
    pooled = {"kernel_shape": [2, 2], "strides": [2, 2]}
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    indices = ["places"] if unpooled else []
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], **window),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["pooled", *indices], **pooled),
        helper.make_node("Conv", ["pooled", "w1"], ["c"], **window),
        *([helper.make_node("MaxUnpool", ["c", "places"], ["d"], **pooled)] if unpooled else []),
        helper.make_node("Conv", ["d" if unpooled else "c", "w2"], ["y"], **window),
    ]
    weights = {
        name: rng.normal(0, 0.2, (CHANNELS, inputs, 3, 3)).astype("float32")
        for name, inputs in (("w0", 3), ("w1", CHANNELS), ("w2", CHANNELS))
    }
    return model(nodes, {"x": (1, 3, SIZE, SIZE)}, {"y": None}, weights)


def plan(*, unpooled: bool) -> Plan:
    rng = np.random.default_rng(1)
    data = [{"x": rng.normal(size=(1, 3, SIZE, SIZE)).astype("float32")} for _ in range(2)]
    module = import_onnx(network(unpooled=unpooled))
    return relay_int8.quantize(Model(module=module), data).network.plan


@pytest.mark.fast
def test_a_pooling_whose_positions_are_read_compares_floats():
    made = plan(unpooled=True)
    (pooling,) = (layer for layer in made.layers if layer.kind == "max_pool2d")
    assert pooling.reason == REASON
    assert "pooled" in made.tensors  # what was pooled is rounded, and what it was pooled from not
    assert "b" not in made.tensors
    assert all(layer.integer for layer in made.layers if layer.macs)


@pytest.mark.fast
def test_a_pooling_alone_is_integers():
    (pooling,) = (layer for layer in plan(unpooled=False).layers if layer.kind == "max_pool2d")
    assert pooling.integer
