"""Pads with a value: integers of the oracle, signs and ranges that include the value."""

import numpy as np
import pytest
from tvm.target import Target

from relay_int8.compiler.pipeline import normalize
from relay_int8.numerics.qparams import QParams, activation, constant_integer
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.quantize import quantize
from relay_int8.quantization.refine.equalize import channel_maxima, equalized_by
from relay_int8.quantization.refine.network import NumpyNetwork
from schedules.targets import TARGETS
from tests.quantized_networks import QuantizedNetwork, assert_equals_oracle
from tests.small_networks import NetworkWriter, images, nn
from tests.x86_targets import FASTEST

pytestmark = pytest.mark.fast
WIDTHS = (0, 0, 0, 0, 1, 2, 0, 1)


def padded(value: float, *, of_input: bool = False):
    """A pad of a ReLU's result, or of the network's input, in front of a convolution."""
    net = NetworkWriter((1, 3, 5, 6))
    x = net.x if of_input else net.relu("a", net.conv("a/bias", net.x, 8, 3, padding=1))
    y = net.emit("p", nn.pad(x, WIDTHS, "constant", value))
    for name in ("b", "c", "d", "y"):
        y = net.conv(name, y, 4, 1)
    return normalize()(net.module(y))


@pytest.mark.parametrize("rounding", ["float", "tflite"])
@pytest.mark.parametrize("of_input", [False, True])
@pytest.mark.parametrize("value", [-1.3, 0.5, 9.0])
def test_integers_are_those_of_the_oracle(value, of_input, rounding):
    network = QuantizedNetwork.make(padded(value, of_input=of_input), requantize=rounding)
    assert all(layer.integer for layer in network.plan.layers)
    assert_equals_oracle(network, Target(TARGETS[FASTEST]))


@pytest.mark.parametrize("value", [-1.3, 0.5, 9.0])
def test_the_range_includes_the_value(value):
    mod = padded(value)
    quantized = quantize(mod, [{"x": x} for x in images(mod, 3)], QuantConfig())
    entry = quantized.table.entries["p"]
    assert entry.low <= np.float32(value) <= entry.high
    assert entry.scheme == ("asymmetric" if value < 0 else "u8")
    assert "a" not in quantized.table.entries  # what feeds the pad has its parameters


def test_a_padded_input_is_unsigned_where_the_data_is():
    mod = padded(0.447, of_input=True)
    data = [{"x": np.abs(x)} for x in images(mod, 3)]
    assert quantize(mod, data, QuantConfig(preset="int8")).table.entries["p"].scheme == "u8"
    assert (
        quantize(mod, [{"x": -data[0]["x"]}], QuantConfig(preset="int8")).table.entries["p"].scheme
        == "s8"
    )


@pytest.mark.parametrize("value, kept", [(0.0, True), (0.5, False)])
def test_factors_pass_zeros_alone(value, kept):
    net = NetworkWriter((1, 3, 5, 6))
    a = net.relu("a", net.conv("a/bias", net.x, 8, 3))
    pooled = net.emit("pooled", nn.max_pool2d(a, pool_size=2))
    p = net.emit("p", nn.pad(pooled, WIDTHS, "constant", value))
    mod = net.module(net.conv("y", p, 4, 2))
    maxima = channel_maxima(NumpyNetwork(mod), [{"x": x} for x in images(mod, 2)])
    assert ("a" in maxima) == kept
    equalized = equalized_by(mod, maxima, "cross-layer", 2).mod
    before, after = (NumpyNetwork(one) for one in (mod, equalized))
    (x,) = images(mod)
    np.testing.assert_allclose(
        after.run({"x": x})["y"], before.run({"x": x})["y"], rtol=1e-4, atol=1e-5
    )


def test_an_infinite_value_stays_in_float():
    (layer,) = (one for one in annotate(padded(-np.inf), QuantConfig()).layers if one.name == "p")
    assert layer.reason == "it pads with -inf, which no integer stands for"


@pytest.mark.parametrize(
    "params, value, wanted",
    [
        (activation("u8", 0, 127.5), 1.25, 2),  # of 2.5 the even one
        (activation("u8", 0, 127.5), 1.75, 4),
        (activation("u8", 0, 25.5), -1.0, 0),
        (activation("s8", -12.7, 1), -99.0, -127),
        (activation("s8", -12.7, 1), 0.0, 0),
        (QParams(np.float32(0.5), 10, 0, 255, "uint8"), -2.0, 6),
        (QParams(np.float32(0.5), 10, 0, 255, "uint8"), 1e30, 255),
    ],
)
def test_integer_of_a_value(params, value, wanted):
    assert constant_integer(value, params) == wanted
