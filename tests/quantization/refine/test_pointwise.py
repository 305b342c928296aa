"""Channels that depthwise layers write: their factors, that nothing else changes, what they bring."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.numerics.equalization import typical_power
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.refine.pointwise import pointwise_chains, scalable_pointwise
from tests.scaled_networks import assert_factors_change_no_float, gain_of_factors
from tests.small_networks import NetworkWriter, nn

CHANNELS = 24


def separable(activation: str = "none", *, kernel: int = 1, read_too: bool = False):
    """Return conv, relu -> depthwise layer whose channels are of many sizes -> layer(s) -> sum."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, CHANNELS, 3, padding=1))
    sizes = np.geomspace(0.02, 2, CHANNELS).astype("float32").reshape(-1, 1, 1, 1)
    w = relax.const(
        np.random.default_rng(2).normal(size=(CHANNELS, 1, 3, 3)).astype("float32") * sizes
    )
    d = net.emit("d", nn.conv2d(a, w, padding=1, groups=CHANNELS))
    if activation == "relu":
        d = net.relu("d/relu", d)
    elif activation == "relu6":
        d = net.emit("d/relu6", relax.op.clip(d, 0, 6))
    inverse = 1 / sizes.reshape(1, -1, 1, 1)  # all channels matter alike
    w = np.random.default_rng(3).normal(size=(16, CHANNELS, kernel, kernel)) * inverse
    b = net.emit("b", nn.conv2d(d, relax.const(w.astype("float32") / 8), padding=kernel // 2))
    y = net.conv("y", net.relu("r", b), 8, 1)
    return net.module(y, net.conv("z", d, 4, 3)) if read_too else net.module(y)


@pytest.mark.fast
def test_typical_power_is_that_of_eight_deviations():
    np.testing.assert_array_equal(typical_power(np.array([[[-8, 0, 0], [8, 8, 0]]])), [4, 1, 0])


@pytest.mark.fast
def test_which_channels_take_factors():
    mod = separable()
    (name,) = pointwise_chains(mod)
    (found,) = scalable_pointwise(mod, annotate(mod, QuantConfig()))
    assert found.name == name and found.choice.power is None
    assert [read.shape for read in found.choice.reads] == [(CHANNELS, 16, 1)]


@pytest.mark.fast
@pytest.mark.parametrize(
    "mod", [separable("relu"), separable("relu6"), separable(kernel=3), separable(read_too=True)]
)
def test_which_do_not(mod):
    assert pointwise_chains(mod) == {}


def test_the_float_network_computes_the_same():
    mod = separable()
    (name,) = pointwise_chains(mod)
    assert_factors_change_no_float(mod, name, CHANNELS)


def test_it_is_nearer_to_the_float_network_and_the_table_holds_it():
    made, gain = gain_of_factors(separable())
    assert set(made.table.factors) == {"d"} and gain > 6
