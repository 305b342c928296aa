"""Channels in front of depthwise layers: their factors, that nothing else changes, what they bring."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.calibration import CalibrationTable, open_data
from relay_int8.compiler.passes.qdq.replace_weights import ReplaceWeights
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.errors import CalibrationError
from relay_int8.numerics import equalization
from relay_int8.numerics.equalization import ENOUGH_VALUES, equal_range_factors, needed_factors
from relay_int8.numerics.snr import snr_db
from relay_int8.quantization.config import QuantConfig, Tools
from relay_int8.quantization.quantize import quantize
from relay_int8.quantization.refine.chains import find_chains
from relay_int8.quantization.refine.depthwise import depthwise_factors
from relay_int8.quantization.refine.factors import with_factors
from relay_int8.quantization.refine.network import NumpyNetwork
from tests.reference import run
from tests.small_networks import NETWORKS, NetworkWriter, images, nn

F = np.float32
FREE = np.inf
PLAIN = QuantConfig(tools=Tools(equalization="none"))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("largest", "bounds", "expected"),
    [
        ([8, 1, 8, 2, 0], FREE, [1, 4, 1, 2, 1]),  # half of the range is left to other images
        ([8, 1e-3, 1e-9], FREE, [1, 64, 64]),  # no further than that
        ([0, 0], FREE, [1, 1]),
        ([6, 1, 6, 2, 0], 6, [1, 6, 1, 3, 1]),  # the clip keeps others out
        ([3, 1], 6, [1, 3]),
        ([-0.0, 1], FREE, [1, 1]),
    ],
)
def test_equal_range_factors(largest, bounds, expected):
    found = equal_range_factors(F(largest), np.full(len(largest), bounds), ENOUGH_VALUES)
    few = equal_range_factors(F(largest), np.full(len(largest), bounds), ENOUGH_VALUES - 1)
    free = equal_range_factors(F(largest), np.full(len(largest), FREE), ENOUGH_VALUES)
    np.testing.assert_array_equal(few, free)
    assert found.dtype == F
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.fast
def test_needed_factors():
    """By 2, 0 and 1/2 times errors of channels that reach to 6 are multiplied, up to 3 and to 24."""
    gains = {"a": F([2, 0, 0.5]), "b": F([2, 8, 0.5])}
    np.testing.assert_array_equal(needed_factors(6, gains, {"a": 3, "b": 24}), [4, 2, 1])
    for unknown in ({"a": 3}, {"a": 3, "b": 0}):
        assert needed_factors(6, gains, unknown) == np.inf
    assert needed_factors(6, {}, {}) == np.inf


ACTIVATIONS = {
    "relu": nn.relu,
    "relu6": lambda x: relax.op.clip(x, 0, 1.5),
    "leaky": lambda x: nn.leakyrelu(x, 0.1),
    "swish": nn.silu,
}


def spread(activation=nn.relu, pool=None):
    """Return conv -> activation (-> pool) -> depthwise -> conv; channels differ 4000 times."""
    net = NetworkWriter((1, 3, 12, 12))
    a = net.conv("a/bias" if activation else "a", net.x, 16, 3, padding=1)
    a = net.emit("a", activation(a)) if activation else a
    b = net.emit("pool", pool(a, pool_size=2, strides=2)) if pool else a
    b = net.relu("b", net.conv("b/bias", b, 16, 3, padding=1, groups=16))
    mod = net.module(net.conv("c", b, 6, 1))
    chain = next(chain for chain in find_chains(mod["main"]) if chain.name == "a")
    (producer,), (reader,) = chain.producers, chain.readers
    scales = 2.0 ** -np.linspace(0, 12, 16)
    scales[5] = 0.0
    w = producer.weight.values * scales[:, None, None, None]
    read = reader.weight.values / np.maximum(scales, 1e-3)[:, None, None, None]
    layers = {"a": w, "b": read}, {"a": producer.bias * scales}
    return tvm.transform.Sequential([ReplaceWeights(*layers)])(mod)


def dataset(arrays):
    info = TensorInfo(name="x", dtype="float32", shape=arrays[0].shape)
    return open_data([{"x": x} for x in arrays], [info])


NETS = {
    **{name: partial(spread, activation) for name, activation in ACTIVATIONS.items()},
    "none": partial(spread, None),
    "pool": partial(spread, pool=nn.avg_pool2d),
    "max_pool": partial(spread, pool=nn.max_pool2d),
}


def outputs_db(quantized, mod, arrays):
    """Return how near the integer network is to FP32."""
    wanted = np.concatenate([NumpyNetwork(mod).run({"x": x})["c"] for x in arrays])
    found = np.concatenate([run(quantized.mod, {"x": x})["c"] for x in arrays])
    return snr_db(wanted, found)


@pytest.fixture
def powers_of_two(monkeypatch):
    """Round factors to powers of two, which scale floats without rounding them."""

    def _rounded(largest, bounds, values):
        _, exponents = np.frexp(equal_range_factors(largest, bounds, ENOUGH_VALUES))
        return np.ldexp(F(1), exponents - 1)

    monkeypatch.setattr(equalization, "equal_range_factors", _rounded)
    monkeypatch.setattr(equalization, "needed_factors", lambda *_: np.inf)


@pytest.mark.parametrize("name", [name for name in NETS if name != "relu6"])
def test_the_float_network_computes_the_same(name):
    mod = NETS[name]()
    factors = {"a": F(2) ** np.random.default_rng(0).uniform(0, 6, 16).astype(F)}
    before, after = NumpyNetwork(mod), NumpyNetwork(with_factors(mod, factors))
    for x in images(mod, 4):
        wanted = before.run({"x": x})["c"]
        np.testing.assert_allclose(after.run({"x": x})["c"], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.fast
def test_a_clip_bounds_factors_where_enough_values_were_seen():
    mod = spread(ACTIVATIONS["relu6"])
    largest = F(1.5) * F(2) ** -np.linspace(0, 12, 16, dtype=F)
    enough = -(-ENOUGH_VALUES // 12**2)  # images of 12 x 12 values
    few, many = (depthwise_factors(mod, {"a": largest}, n)["a"] for n in (enough - 1, enough))
    bounds = np.full(16, 1.5)
    np.testing.assert_array_equal(few, equal_range_factors(largest, bounds, ENOUGH_VALUES - 1))
    np.testing.assert_array_equal(many, equal_range_factors(largest, bounds, ENOUGH_VALUES))
    assert not np.array_equal(few, many)


@pytest.mark.parametrize("name", ["relu6", "none", "pool", "max_pool", "swish"])
def test_the_table_is_that_of_the_scaled_network(name, powers_of_two):
    """Bit for bit, with all that follows: calibration runs the network as it was."""
    mod = NETS[name]()
    data = images(mod, 24)
    found = quantize(mod, dataset(data), keep_histograms=True)
    factors = found.table.factors
    assert set(factors) == {"a"}
    assert factors["a"].min() == 1 and factors["a"].max() >= 4 and factors["a"][5] == 1
    scaled = with_factors(mod, factors)
    before, after = NumpyNetwork(mod), NumpyNetwork(scaled)
    for x in data:
        np.testing.assert_array_equal(before.run({"x": x})["c"], after.run({"x": x})["c"])
    wanted = quantize(scaled, dataset(data), PLAIN, keep_histograms=True)
    assert found.digest == wanted.digest
    named = {"model_hash": wanted.table.model_hash, "weights_hash": wanted.table.weights_hash}
    bare = replace(found.table, factors={}, **named)
    assert bare.to_json() == wanted.table.to_json()


def test_without_counts_too(powers_of_two):
    mod = spread(None)
    data = images(mod, 24)
    config = QuantConfig(preset="int8", method="max")
    found = quantize(mod, dataset(data), config)
    plain = replace(config, tools=PLAIN.tools)
    wanted = quantize(with_factors(mod, found.table.factors), dataset(data), plain)
    assert found.table.factors and found.digest == wanted.digest


def test_a_method_of_one_pass_scales_nothing():
    mod = spread()
    data = dataset(images(mod, 24))
    config = QuantConfig(preset="int8", method="mse-onepass")
    found = quantize(mod, data, config)
    assert not found.table.factors and any("reads the data once" in n for n in found.table.notes)
    assert found.digest == quantize(mod, data, replace(config, tools=PLAIN.tools)).digest


@pytest.mark.parametrize("preset", ["int8", "int8-accurate", "auto"])
def test_wide_channels_gain_decibels(preset):
    mod = spread()
    arrays = images(mod, 40)
    config = QuantConfig(preset=preset)
    found = outputs_db(quantize(mod, dataset(arrays[:32]), config), mod, arrays[32:])
    settings = replace(config, preset="int8", tools=Tools(equalization="none"))
    plain = outputs_db(quantize(mod, dataset(arrays[:32]), settings), mod, arrays[32:])
    assert found > plain + 10


def test_a_table_carries_its_factors():
    mod = spread(ACTIVATIONS["relu6"])
    arrays = images(mod, 24)
    found = quantize(mod, dataset(arrays))
    text = found.table.to_json()
    table = CalibrationTable.from_json(text)
    assert table.to_json() == text
    again = quantize(mod, table)
    assert again.digest == found.digest and again.table_hash == found.table_hash
    assert "equalization: depthwise" in again.settings["tools"]
    bare = quantize(mod, replace(table, factors={}))
    assert bare.digest != found.digest and "equalization: none" in bare.settings["tools"]
    order = quantize(mod, dataset(arrays[::-1]))
    assert order.table.to_json() == text and order.digest == found.digest


def channels_behind_swish(enlarged: float) -> dict[str, np.ndarray]:
    """Return the factors of channels behind a swish, one of which a filter enlarges."""
    net = NetworkWriter((1, 3, 12, 12))
    w = np.random.default_rng(0).normal(0, 0.3, (8, 3, 1, 1)).astype("float32")
    w[0] /= 1000
    a = net.emit("a", nn.silu(net.emit("a/conv", nn.conv2d(net.x, relax.const(w)))))
    w = np.random.default_rng(1).normal(0, 0.3, (8, 1, 3, 3)).astype("float32")
    w[0] *= enlarged
    b = net.relu("b", net.emit("b/conv", nn.conv2d(a, relax.const(w), groups=8, padding=1)))
    mod = net.module(net.conv("c", b, 6, 1))
    factors: dict[str, np.ndarray] = quantize(mod, dataset(images(mod, 8))).table.factors
    return factors


@pytest.mark.fast
def test_behind_a_function_channels_grow_only_as_far_as_they_gain_by_it():
    """A channel that a filter does not enlarge may be larger on other images: it stays small."""
    assert channels_behind_swish(enlarged=100)["a"][0] == pytest.approx(64)
    assert channels_behind_swish(enlarged=1).get("a", np.ones(8))[0] < 4


@pytest.mark.fast
def test_a_function_that_is_a_table_has_no_factors():
    mod = spread(ACTIVATIONS["swish"])
    data = dataset(images(mod, 24))
    config = QuantConfig(requantize="tflite")
    assert not quantize(mod, data, config).table.factors
    assert quantize(mod, data).table.factors


@pytest.mark.parametrize("exclude", [(), ("add",)])
def test_auto_scales_channels_behind_functions(exclude):
    """The reader's result is what it adds to a residual, or is not where additions stay apart."""
    net = NetworkWriter((1, 8, 12, 12))
    a = net.emit("a", nn.silu(net.conv("a/bias", net.x, 8, 1)))
    b = net.conv("b/bias", a, 8, 3, padding=1, groups=8)
    mod = net.module(net.conv("c", net.emit("b", relax.op.add(b, net.x)), 6, 1))
    data = dataset(images(mod, 8))
    assert quantize(mod, data, QuantConfig(preset="auto", exclude=exclude)).choices


@pytest.mark.fast
def test_factors_that_do_not_fit_are_refused():
    mod = spread()
    with pytest.raises(CalibrationError, match="channels of a, which the model has not beside"):
        with_factors(mod, {"a": np.ones(8, F)})
    with pytest.raises(CalibrationError, match=r"channels of b, .*calibrate this model again"):
        with_factors(mod, {"b": np.ones(16, F)})
    text = CalibrationTable(entries={}, factors={"a": F([1, 4])}).to_json()
    assert '"a": "1.0 4.0"' in text
    for broken in ("0", "-2", "inf", "nan", "x"):
        with pytest.raises(CalibrationError, match="broken table"):
            CalibrationTable.from_json(text.replace("4.0", broken))


def test_without_depthwise_layers_nothing_changes():
    mod = NETWORKS["residual"]()
    data = dataset(images(mod, 24))
    found, plain = quantize(mod, data), quantize(mod, data, PLAIN)
    assert found.digest == plain.digest
    assert found.table.to_json() == plain.table.to_json()
    assert "factors" not in found.table.to_json()
