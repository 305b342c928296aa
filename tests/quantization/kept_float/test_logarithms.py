"""Layers before logarithms stay in float: which do, and which functions are no logarithms."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.pipeline import normalized
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.kept_float.logarithms import REASON
from tests.small_networks import NetworkWriter, nn

RNG = np.random.default_rng(0)


def added(number):
    return lambda net, x: net.emit("added", relax.op.add(x, relax.const(np.float32(number))))


def bounded(low):
    bounds = map(relax.prim_value, (low, 1e10))
    return lambda net, x: net.emit("bounded", relax.op.clip(x, *bounds))


def powers(net, x):
    y = net.emit("powers", relax.op.multiply(x, x))
    y = net.emit("summed", relax.op.sum(y, axis=[3], keepdims=True))
    return net.conv("mel", y, 4, 1)


def transforms(net, x):
    """Two steps of a transform, and filters that the network computes."""
    first = net.emit("first", relax.op.matmul(x, net.constant(4, 8)))
    turned = net.emit("turned", relax.op.permute_dims(first, [0, 1, 3, 2]))
    part = net.emit("part", relax.op.strided_slice(turned, [2], [0], [4]))
    other = net.emit("rest", relax.op.strided_slice(turned, [2], [4], [8]))
    weighted = net.emit("weighted", relax.op.multiply(other, net.constant(4, 1)))
    second = net.emit("second", relax.op.subtract(part, weighted))
    third = net.emit("third", relax.op.matmul(second, net.constant(4, 6)))
    size = net.emit("size", relax.op.sqrt(powers_of(net, third)))
    filters = net.emit("filters", relax.op.mean(net.x, [1], keepdims=True))
    narrow = net.emit("narrow", relax.op.strided_slice(filters, [3], [0], [4]))
    return net.emit("product", relax.op.matmul(size, narrow))


def powers_of(net, x):
    return net.emit("squares", relax.op.multiply(x, x))


CHAINS = {
    "alone": [],
    "with a guard": [added(1e-6)],
    "of a maximum": [bounded(1e-10)],
    "of powers": [powers, added(1e-6)],
    "of transforms": [transforms, added(1e-6)],
    "moved": [lambda net, x: net.emit("moved", relax.op.permute_dims(x, [0, 2, 3, 1]))],
}
FUNCTIONS = {
    "log": relax.op.log,
    "1 / x": lambda x: relax.op.divide(relax.const(np.float32(1)), x),
    "rsqrt": relax.op.rsqrt,
}


def network(chain=(), function=relax.op.log, *, read_too=False, returned=False):
    """Return relu(conv) -> "spread" -> a chain -> a function -> conv -> relu -> conv."""
    net = NetworkWriter((1, 3, 6, 6))
    hidden = net.relu("hidden", net.conv("hidden/conv", net.x, 8, 3))
    spread = net.emit("spread", nn.conv2d(hidden, net.constant(8, 8, 1, 1)))
    x = spread
    for link in chain:
        x = link(net, x)
    x = net.emit("shown", function(x))
    y = net.conv("y", net.relu("read", net.conv("read/conv", x, 8, 1)), 4, 1)
    if read_too:
        other = net.conv("other", spread, 4, 1)
        return net.module(y, other)
    return net.module(y, spread) if returned else net.module(y)


def layers(mod, config=None):
    plan = annotate(normalized(mod)[0], config or QuantConfig())
    return {layer.name.split("/")[0]: layer for layer in plan.layers if layer.macs}


@pytest.mark.fast
@pytest.mark.parametrize("chain", CHAINS)
def test_a_layer_before_a_logarithm_stays_in_float(chain):
    found = layers(network(CHAINS[chain]))
    kept = [layer for layer in found.values() if layer.reason == REASON]
    wanted = {
        "of powers": ["spread", "added"],
        "of transforms": ["spread", "first", "third", "product"],
    }
    assert [layer.name.split("/")[0] for layer in kept] == wanted.get(chain, [kept[0].name])
    assert not any(found[name].reason == REASON for name in ("hidden", "y"))
    assert found["hidden"].integer and found["y"].integer


@pytest.mark.fast
@pytest.mark.parametrize("function", FUNCTIONS)
def test_so_does_one_before_a_function_of_small_values(function):
    found = layers(network(function=FUNCTIONS[function]))
    assert found["spread"].reason == REASON


@pytest.mark.fast
@pytest.mark.parametrize(
    "changes",
    [
        {"function": relax.op.sqrt},
        {"function": relax.op.sigmoid},
        {"function": relax.op.exp},
        {"chain": [added(1.0)]},
        {"chain": [bounded(0.5)]},
        {"read_too": True},
        {"returned": True},
    ],
)
def test_other_layers_are_integers(changes):
    assert not any(layer.reason == REASON for layer in layers(network(**changes)).values())


@pytest.mark.fast
def test_where_integers_are_required_it_is_integers():
    found = layers(network(), QuantConfig(require_int8="products"))
    assert found["spread"].integer
