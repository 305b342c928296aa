"""Factors between layers: worked numbers, where they may pass, and that the network stays itself."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.qdq.replace_weights import ReplaceWeights
from relay_int8.numerics.equalization import (
    HEADROOM,
    cross_layer_factors,
    smoothing_factors,
    within_clip,
    within_range,
)
from relay_int8.quantization.refine import float_tensors
from relay_int8.quantization.refine.chains import find_chains
from relay_int8.quantization.refine.equalize import (
    channel_maxima,
    equalize,
    equalized_by,
    maxima_of,
)
from relay_int8.quantization.refine.float_tensors import FloatTensors
from relay_int8.quantization.refine.network import NumpyNetwork
from tests.small_networks import NETWORKS, NetworkWriter, images, nn

F = np.float32


@pytest.mark.fast
@pytest.mark.parametrize(
    ("produced", "read", "expected"),
    [
        ([1.0, 4.0], [4.0, 1.0], [2.0, 0.5]),
        ([2.0, 0.0], [0.5, 3.0], [0.5, 1.0]),  # nothing is produced: nothing to scale
        ([1e-9], [1.0], [64.0]),  # no further than that
    ],
)
def test_cross_layer_factors(produced, read, expected):
    np.testing.assert_allclose(cross_layer_factors(F(produced), F(read)), expected)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("x", "w", "alpha", "expected"),
    [
        ([8.0, 2.0], [1.0, 1.0], 1.0, [1.0, 4.0]),
        ([8.0, 2.0], [1.0, 1.0], 0.5, [1.0, 2.0]),
        ([8.0, 2.0], [1.0, 4.0], 0.5, [1.0, 4.0]),
        ([8.0, 2.0], [1.0, 4.0], 0.0, [1.0, 4.0]),
        ([8.0, 0.0], [1.0, 4.0], 0.5, [1.0, 1.0]),
        ([0.0, 0.0], [1.0, 4.0], 0.5, [1.0, 1.0]),
    ],
)
def test_smoothing_factors(x, w, alpha, expected):
    np.testing.assert_allclose(smoothing_factors(F(x), F(w), alpha), expected)


@pytest.mark.fast
def test_a_clip_limits_factors():
    bounds = F([6, 6, 6, 6, np.inf, np.inf])
    found = within_clip(F([4, 4, 0.5, 4, 4, 0.5]), F([6, 2, 1, 0, 6, 0]), bounds)
    np.testing.assert_allclose(found, [1, 3, 1, 1, 4, 0.5])


@pytest.mark.fast
def test_no_channel_outgrows_its_tensor():
    factors, largest = F([4, 4, 0.5, 4, 4, 4]), F([8, 2, 8, 0, 1, 6])
    np.testing.assert_allclose(
        within_range(factors, largest, np.full(6, np.inf)), [1, 4 / HEADROOM, 0.5, 1, 4, 1]
    )
    clipped = within_range(factors, largest, np.full(6, 8.0))
    np.testing.assert_allclose(clipped, [1, 4, 0.5, 1, 4, 8 / 6])


def test_a_channel_of_bias_alone_does_not_grow():
    net = NetworkWriter((1, 3, 8, 8))
    a = net.relu("a", net.conv("a/bias", net.x, 8, 1))
    mod = net.module(net.conv("out", a, 4, 1))
    (chain,) = find_chains(mod["main"])
    w, b = chain.producers[0].weight.values.copy(), chain.producers[0].bias.copy()
    w[2], b[2] = 1e-30, 0.5
    mod = tvm.transform.Sequential([ReplaceWeights({"a": w}, {"a": b})])(mod)
    data = [{"x": x} for x in images(mod, 8)]
    before = channel_maxima(NumpyNetwork(mod), data)["a"]
    after = channel_maxima(NumpyNetwork(equalize(mod, data, "cross-layer")), data)["a"]
    assert after.max() <= before.max() * 1.001


def chained(activation):
    """Return conv -> activation -> depthwise -> relu -> pool -> conv -> dense, as one would."""
    net = NetworkWriter((1, 3, 8, 8))
    a = net.emit("a", activation(net.conv("a/bias", net.x, 8, 3, padding=1)))
    b = net.relu("b", net.conv("b/bias", a, 8, 3, padding=1, groups=8))
    pool = net.emit("pool", nn.max_pool2d(b, pool_size=2, strides=2))
    c = net.relu("c", net.conv("c/bias", pool, 6, 1))
    mean = net.emit("mean", nn.avg_pool2d(c, pool_size=4))
    flat = net.emit("flat", relax.op.reshape(mean, (1, 6)))
    return net.module(net.emit("d", relax.op.matmul(flat, net.constant(6, 5))))


ACTIVATIONS = {
    "relu": nn.relu,
    "leaky": lambda x: nn.leakyrelu(x, 0.1),
    "relu6": lambda x: relax.op.clip(x, 0, 1.5),
}


@pytest.mark.parametrize("how", ["cross-layer", "smooth"])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_network_computes_the_same(name, how):
    mod = chained(ACTIVATIONS[name])
    chains = {chain.name: [r.name for r in chain.readers] for chain in find_chains(mod["main"])}
    assert chains == {"a": ["b"], "b": ["c"], "c": ["d"]}
    data = [{"x": x} for x in images(mod, 8)]
    scaled = equalize(mod, data, how)
    before, after = NumpyNetwork(mod), NumpyNetwork(scaled)
    for image in data:
        wanted = before.run(image)["d"]
        np.testing.assert_allclose(after.run(image)["d"], wanted, rtol=1e-3, atol=1e-4)
    old, new = channel_maxima(before, data), channel_maxima(after, data)
    if how == "smooth":  # the reader of a is depthwise: all channels alike, as far as may be
        spread, left = (found["a"].max() / found["a"].min() for found in (old, new))
        assert left < spread or name == "relu6"
        assert left < (HEADROOM * 1.001 if name != "relu6" else 1.2)
    else:
        assert any(not np.allclose(old[key], new[key]) for key in old)


@pytest.mark.fast
def test_where_factors_cannot_pass():
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 8, 1))
    b = net.conv("b", a, 8, 1)
    s = net.relu("s", net.emit("sum", relax.op.add(a, b)))  # a is read by an addition
    t = net.emit("t", relax.op.sin(net.conv("t/bias", s, 8, 1)))  # not homogeneous
    clipped = net.emit("clipped", relax.op.clip(net.conv("c/bias", t, 8, 1), -1, 1))
    mod = net.module(net.conv("out", clipped, 4, 1), net.conv("other", s, 4, 1))
    assert find_chains(mod["main"]) == []


def joined():
    """Return two convolutions of unlike ranges that are joined, pooled and read."""
    net = NetworkWriter((1, 3, 8, 8))
    s = net.relu("s", net.conv("s/bias", net.x, 4, 1))
    a = net.relu("a", net.conv("a/bias", s, 5, 1))
    clip = relax.op.clip(net.conv("b/bias", s, 7, 3, padding=1), 0, 1.5)
    both = net.emit("both", relax.op.concat([a, net.emit("b", clip)], axis=1))
    pool = net.emit("pool", nn.max_pool2d(both, pool_size=2, strides=2))
    return net.module(net.conv("out", pool, 4, 1))


@pytest.mark.parametrize("how", ["cross-layer", "smooth"])
def test_factors_pass_a_concat_of_channels(how):
    mod = joined()
    chains = {chain.name: chain for chain in find_chains(mod["main"])}
    assert set(chains) == {"s", "both"}
    assert [layer.name for layer in chains["both"].producers] == ["a", "b"]
    np.testing.assert_array_equal(chains["both"].bounds, [np.inf] * 5 + [1.5] * 7)
    data = [{"x": x} for x in images(mod, 8)]
    before, after = NumpyNetwork(mod), NumpyNetwork(equalize(mod, data, how))
    for image in data:
        wanted = before.run(image)["out"]
        np.testing.assert_allclose(after.run(image)["out"], wanted, rtol=1e-3, atol=1e-4)
    old, new = channel_maxima(before, data)["both"], channel_maxima(after, data)["both"]
    assert not np.allclose(old[:5], new[:5])
    assert np.all(new[5:] >= old[5:] * 0.999)  # behind a clip they can only grow


@pytest.mark.fast
@pytest.mark.parametrize("kept_bytes", [0, float_tensors.KEPT_BYTES])
@pytest.mark.parametrize("how", ["none", "depthwise", "cross-layer", "smooth"])
@pytest.mark.parametrize("make", [lambda: chained(ACTIVATIONS["relu6"]), joined])
def test_tensors_of_the_equalized_network_need_no_run(make, how, kept_bytes, monkeypatch):
    monkeypatch.setattr(float_tensors, "KEPT_BYTES", kept_bytes)
    mod = make()
    data = [{"x": x} for x in images(mod, 11)]
    before = NumpyNetwork(mod)
    maxima = channel_maxima(before, data)
    equalized = equalized_by(mod, maxima, how, len(data))
    floats = FloatTensors(before, data).scaled(NumpyNetwork(equalized.mod), equalized.factors)
    assert len(floats) == 2 and bool(floats.kept) == (kept_bytes > 0)
    unscaled = maxima_of(before, map(FloatTensors(before, data).tensors, range(2)))
    assert all((unscaled[name] == largest).all() for name, largest in maxima.items())
    for number in range(len(floats)):
        wanted = floats.network.run(floats.inputs(number), keep=lambda _: True)
        for name, values in wanted.items():
            found = floats.tensors(number)[name]
            np.testing.assert_allclose(found, values, rtol=1e-4, atol=1e-5)
        for name, values in floats.outputs(number).items():
            np.testing.assert_allclose(wanted[name], values, rtol=1e-4, atol=1e-5)


@pytest.mark.fast
def test_a_concat_that_joins_anything_else_stops_factors():
    net = NetworkWriter((1, 3, 8, 8))
    a = net.relu("a", net.conv("a/bias", net.x, 5, 1))
    other = net.emit("other", relax.op.concat([net.x, a], axis=1))
    b = net.relu("b", net.conv("b/bias", other, 5, 1))
    twice = net.emit("twice", relax.op.concat([b, b], axis=1))
    assert find_chains(net.module(net.conv("out", twice, 4, 1))["main"]) == []


@pytest.mark.fast
def test_every_reader_is_divided():
    mod = NETWORKS["residual"]()
    assert {chain.name for chain in find_chains(mod["main"])} == {"a", "b0"}
    (chain,) = [chain for chain in find_chains(mod["main"]) if chain.name == "a"]
    assert [reader.name for reader in chain.readers] == ["b0", "d"]


def test_factors_pass_between_layers_that_mean_the_same_axis():
    """A convolution's channels are axis 1, a product's the last; a constant has no producer."""
    net = NetworkWriter((1, 6, 4, 6))
    conv = net.relu("conv", net.conv("conv/bias", net.x, 6, 1))
    across = net.emit("across", relax.op.matmul(conv, net.constant(6, 5)))
    along = net.emit("along", relax.op.matmul(across, net.constant(5, 3)))
    assert {chain.name for chain in find_chains(net.module(along)["main"])} == {"across"}

    net = NetworkWriter((1, 6, 6))
    parts = [net.emit(name, relax.op.matmul(net.x, net.constant(6, 6))) for name in "ab"]
    rows = net.emit("rows", relax.op.concat(parts, axis=1))
    assert (
        find_chains(net.module(net.emit("y", relax.op.matmul(rows, net.constant(6, 2))))["main"])
        == []
    )

    net = NetworkWriter((1, 6, 4, 4))
    conv = net.conv("conv", net.x, 6, 1)
    joined = net.emit("joined", relax.op.concat([net.constant(1, 2, 4, 4), conv], axis=1))
    assert find_chains(net.module(net.conv("y", joined, 3, 1))["main"]) == []
