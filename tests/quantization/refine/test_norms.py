"""Norms whose channels are scaled: their factors, that nothing else changes, what they bring."""

from dataclasses import replace

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.calibration import CalibrationTable, channels, open_data
from relay_int8.compiler.build import compile_module
from relay_int8.compiler.passes.qdq.scale_norms import ScaleNorms
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.graph import dataflow
from relay_int8.graph.norm_readers import find_norm_readers
from relay_int8.numerics.equalization import least_noise_factors
from relay_int8.numerics.snr import snr_db
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig, Tools
from relay_int8.quantization.quantize import leave_in_float, quantize
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.norms import scalable_norms
from schedules.targets import native_target
from tests.reference import run
from tests.run_built import run_built
from tests.small_networks import NetworkWriter, images, nn

F = np.float32
TOKENS, WIDTH = 6, 32
PLAIN = QuantConfig(tools=Tools(equalization="none"))
GAMMA = np.where(
    np.arange(WIDTH) == 5, F(24), F(0.5)
)  # one channel reaches far, as trained ones do


def encoder(kind="layer_norm", shared=False, shape=(1, TOKENS, WIDTH)):
    """Return norm -> two dense layers, whose sum a third one reads; ``shared``: with the norm."""
    net = NetworkWriter(shape)
    gamma, beta = relax.const(GAMMA), net.constant(WIDTH, scale=0.2)
    norms = {
        "layer_norm": lambda: nn.layer_norm(net.x, gamma, beta, [-1], 1e-5),
        "rms_norm": lambda: nn.rms_norm(net.x, gamma, [-1], 1e-5),
    }
    n = net.emit("n", norms[kind]())
    a = net.relu("a", net.emit("a/sum", relax.op.matmul(n, net.constant(WIDTH, WIDTH, scale=0.2))))
    b = net.emit("b", relax.op.matmul(n, net.constant(WIDTH, WIDTH, scale=0.2)))
    joined = net.emit("joined", relax.op.add(a, b))
    if shared:
        joined = net.emit("residual", relax.op.add(joined, n))
    gamma, beta = net.constant(WIDTH), net.constant(WIDTH)
    last = net.emit("last", nn.layer_norm(joined, gamma, beta, [-1], 1e-5))
    return net.module(net.emit("y", relax.op.matmul(last, net.constant(WIDTH, 8))))


NETS = {
    "alone": encoder,
    "rms": lambda: encoder("rms_norm"),
    "shared": lambda: encoder(shared=True),
}


def dataset(arrays):
    info = TensorInfo(name="x", dtype="float32", shape=arrays[0].shape)
    return open_data([{"x": x} for x in arrays], [info])


def names_of(mod):
    return [var.name for var, _ in dataflow.calls(mod["main"])]


def noise(factors, extremes, power, read):
    """Return what rounding inputs and weights by their steps adds to the outputs' squares."""
    scaled = extremes * factors
    step = (scaled.max() - scaled.min()) / 255
    weights = read / factors[:, None]
    total = 0.0
    for output in weights.T:
        total += step**2 / 12 * (output**2).sum()
        total += (np.abs(output).max() / 127) ** 2 / 12 * (power * factors**2).sum()
    return total


@pytest.mark.fast
def test_factors_lessen_the_noise_of_inputs_and_weights_together():
    rng = np.random.default_rng(0)
    largest = np.where(np.arange(16) == 3, 40.0, rng.uniform(0.5, 1, 16))
    extremes, power = np.stack([-largest, largest]), (largest / 3) ** 2
    read = rng.normal(size=(16, 12))
    factors = least_noise_factors(extremes[None].astype(F), power, [read[..., None]])
    assert factors.dtype == F and factors[3] == 1 and factors.min() >= 1 and factors.max() > 2
    assert (largest * factors).max() == largest.max()
    before = noise(np.ones(16), extremes, power, read)
    assert noise(factors, extremes, power, read) < before / 4


@pytest.mark.fast
@pytest.mark.parametrize("largest", [np.ones(4), np.zeros(4)])
def test_channels_alike_have_no_factors(largest):
    extremes = np.stack([-largest, largest])
    factors = least_noise_factors(extremes[None], largest**2, [np.ones((4, 3, 1))])
    np.testing.assert_array_equal(factors, np.ones(4, F))


@pytest.mark.parametrize("name", NETS)
def test_the_float_network_computes_the_same(name):
    mod = NETS[name]()
    text = mod.script(show_meta=True)
    factors = {"n": F(2) ** np.random.default_rng(0).integers(0, 6, WIDTH).astype(F)}
    scaled = tvm.transform.Sequential([ScaleNorms(factors)])(mod)
    assert mod.script(show_meta=True) == text
    assert set(names_of(scaled)) - set(names_of(mod)) == (
        {"n:unscaled"} if name == "shared" else set()
    )
    before, after = NumpyNetwork(mod), NumpyNetwork(scaled)
    for x in images(mod, 3):
        kept = after.run({"x": x}, keep=lambda tensor: tensor == "n")
        plain = before.run({"x": x}, keep=lambda tensor: tensor == "n")
        np.testing.assert_allclose(kept["n"], plain["n"] * factors["n"], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(kept["y"], plain["y"], rtol=1e-4, atol=1e-4)


@pytest.fixture
def powers_of_two(monkeypatch):
    """Round factors to powers of two, which scale floats without rounding them."""

    def _rounded(extremes, power, read):
        _, exponents = np.frexp(least_noise_factors(extremes, power, read))
        return np.ldexp(F(1), exponents - 1)

    monkeypatch.setattr(channels, "least_noise_factors", _rounded)


@pytest.mark.parametrize("name", NETS)
def test_the_table_is_that_of_the_scaled_network(name, powers_of_two):
    """Bit for bit, with all that follows: calibration runs the network as it was."""
    mod = NETS[name]()
    data = images(mod, 8)
    found = quantize(mod, dataset(data), keep_histograms=True)
    factors = found.table.factors
    assert factors["n"].max() >= 4 and factors["n"][5] == 1
    scaled = tvm.transform.Sequential([ScaleNorms(factors)])(mod)
    wanted = quantize(scaled, dataset(data), PLAIN, keep_histograms=True)
    assert found.digest == wanted.digest
    named = {"model_hash": wanted.table.model_hash, "weights_hash": wanted.table.weights_hash}
    bare = replace(found.table, factors={}, **named)
    assert bare.to_json() == wanted.table.to_json()


@pytest.mark.parametrize("name", ["alone", "shared"])
def test_it_is_nearer_to_the_float_network(name):
    mod = NETS[name]()
    data, unseen = images(mod, 16), images(mod, 24)[16:]
    before, after = (quantize(mod, dataset(data), config) for config in (PLAIN, QuantConfig()))
    wanted = np.concatenate([NumpyNetwork(mod).run({"x": x})["y"] for x in unseen])
    plain, scaled = (
        snr_db(wanted, np.concatenate([run(each.mod, {"x": x})["y"] for x in unseen]))
        for each in (before, after)
    )
    assert scaled > plain + 4


def test_the_artifact_has_the_integers_of_the_reference():
    mod = encoder(shared=True)
    data = images(mod, 8)
    quantized = quantize(mod, dataset(data))
    found = run_built(compile_module(quantized.mod, native_target()), {"x": data[0]})
    np.testing.assert_array_equal(found["outputs:0"], run(quantized.mod, {"x": data[0]})["y"])


def test_a_table_and_a_layer_left_in_float_keep_the_factors():
    mod = encoder(shared=True)
    data = dataset(images(mod, 8))
    found = quantize(mod, data)
    table = CalibrationTable.from_json(found.table.to_json())
    assert quantize(mod, table).digest == found.digest
    less = leave_in_float(found, ["b"], data)
    assert "n:unscaled" in names_of(less.reference)
    assert not next(layer for layer in less.plan.layers if layer.name == "b").integer


@pytest.mark.fast
def test_whose_readers_take_factors():
    mod = encoder(shared=True)
    (first, last) = find_norm_readers(mod["main"])
    assert (first.norm.name, [each.name for each in first.readers]) == ("n", ["a", "b"])
    assert first.is_shared and not last.is_shared
    plan = annotate(mod, QuantConfig())
    assert {each.name for each in scalable_norms(mod, plan)} == {"n", "last"}
    excluded = annotate(mod, QuantConfig(exclude=("dense",)))
    assert scalable_norms(mod, excluded) == []
    of_images = encoder(shape=(1, 2, 3, WIDTH))
    assert find_norm_readers(of_images["main"]) == []
