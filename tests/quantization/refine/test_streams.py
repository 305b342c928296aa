"""Residual streams: which channels they have, that nothing else changes, what they bring."""

from dataclasses import replace

import numpy as np
import pytest
from tvm import relax

from relay_int8.calibration import channels
from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import CalibrationError
from relay_int8.numerics.equalization import least_noise_factors
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.quantize import quantize
from relay_int8.quantization.refine.factors import with_factors
from relay_int8.quantization.refine.streams import find_streams, scalable_streams
from tests.scaled_networks import (
    PLAIN,
    assert_factors_change_no_float,
    dataset,
    gain_of_factors,
)
from tests.small_networks import NetworkWriter, images, nn, shape

CHANNELS = 24
SIZES = np.geomspace(0.1, 4, CHANNELS).astype("float32")
"""Of the channels of a stream: each block writes large values into the same ones."""


class Writer(NetworkWriter):
    """Blocks whose weights have the sizes of the stream's channels."""

    def into(self, name, x, kernel=1):
        """Return what a convolution adds to a stream."""
        rng = np.random.default_rng(len(name))
        w = rng.normal(size=(CHANNELS, shape(x)[1], kernel, kernel)) / shape(x)[1] ** 0.5
        w = w * SIZES.reshape(-1, 1, 1, 1)
        y = nn.conv2d(x, relax.const(w.astype("float32")), padding=kernel // 2)
        bias = relax.const(
            (rng.normal(size=CHANNELS) * SIZES).astype("float32").reshape(1, -1, 1, 1)
        )
        return self.emit(name, relax.op.add(self.emit(f"{name}/sum", y), bias))

    def out_of(self, name, x, channels=8, kernel=1):
        """Return what a convolution reads of a stream, all channels alike, behind ReLU."""
        rng = np.random.default_rng(len(name) + 9)
        w = rng.normal(size=(channels, CHANNELS, kernel, kernel)) / CHANNELS**0.5 / kernel
        w = (w / SIZES.reshape(1, -1, 1, 1)).astype("float32")
        y = self.emit(f"{name}/sum", nn.conv2d(x, relax.const(w), padding=kernel // 2))
        return self.relu(name, y)


def stream(end=None):
    """Return stem -> two residual blocks, the second gated, one ReLU, a pool -> two readers."""
    net = Writer()
    s0 = net.relu("s0", net.into("stem", net.x, 3))
    s1 = net.relu("s1", net.emit("s1/add", relax.op.add(s0, net.into("b1", net.out_of("a1", s0)))))
    mean = net.emit("mean", nn.avg_pool2d(s1, pool_size=shape(s1)[2:]))
    gate = net.emit(
        "gate", relax.op.sigmoid(net.conv("gate/sum", net.relu("m", mean), CHANNELS, 1))
    )
    gated = net.emit("gated", relax.op.multiply(s1, gate))
    s2 = net.emit("s2", relax.op.add(gated, net.into("b2", net.out_of("a2", gated, kernel=3))))
    if end is not None:
        s2 = end(net, s2)
    pool = net.emit("pool", nn.max_pool2d(s2, pool_size=2, strides=2))
    return net.module(net.conv("y", net.out_of("r", pool), 5, 1))


def clipped(net, s2):
    return net.emit("clipped", relax.op.clip(s2, 0, 6))


def shifted(net, s2):
    return net.emit("shifted", relax.op.add(s2, net.constant(1, CHANNELS, 1, 1)))


def joined(net, s2):
    return net.emit("joined", relax.op.strided_slice(s2, [1], [0], [CHANNELS]))


@pytest.mark.fast
def test_which_tensors_and_layers_a_stream_has():
    mod = stream()
    (found,) = find_streams(mod["main"]).values()
    assert {"s0", "s1", "mean", "m", "gated", "s2", "pool"} <= set(found.tensors)
    assert not {"gate", "a1", "a2", "r", "y"} & set(found.tensors)
    assert [layer.name for layer in found.producers] == ["s0", "s1", "s2"]
    assert [layer.name for layer in found.readers] == ["a1", "gate", "a2", "r"]
    assert found.channels == CHANNELS and found.name == "s0"
    (scalable,) = scalable_streams(mod, annotate(mod, QuantConfig()))
    assert set(scalable.deciding) == set(scalable.tensors) <= set(found.tensors)
    assert [read.shape for read in scalable.choice.reads] == [
        (CHANNELS, 8, 1),
        (CHANNELS, CHANNELS, 1),
        (CHANNELS, 8, 9),
        (CHANNELS, 8, 1),
    ]


@pytest.mark.fast
@pytest.mark.parametrize("end", [clipped, shifted, joined])
def test_what_else_reads_it_leaves_none(end):
    assert find_streams(stream(end)["main"]) == {}


@pytest.mark.fast
def test_depthwise_readers_have_scales_of_their_own():
    net = Writer()
    s = net.emit("s", relax.op.add(net.into("a", net.x), net.into("bb", net.x)))
    d = net.emit("d", nn.conv2d(s, net.constant(CHANNELS, 1, 3, 3), padding=1, groups=CHANNELS))
    mod = net.module(net.conv("y", net.relu("r", d), 4, 1), net.conv("z", net.out_of("o", s), 4, 1))
    (found,) = scalable_streams(mod, annotate(mod, QuantConfig()))
    assert [read.shape for read in found.choice.reads] == [(CHANNELS, 8, 1)]
    assert [read.shape for read in found.choice.free_reads] == [(CHANNELS, 9)]


def test_the_float_network_computes_the_same():
    assert_factors_change_no_float(stream(), "s0", CHANNELS)


def test_it_is_nearer_to_the_float_network_and_the_table_holds_it():
    made, gain = gain_of_factors(stream())
    assert set(made.table.factors) == {"s0"} and gain > 3


def test_the_table_is_that_of_the_scaled_network(monkeypatch):
    """Bit for bit, with all that follows, by factors that round no float."""

    def _rounded(*arguments):
        _, exponents = np.frexp(least_noise_factors(*arguments))
        return np.ldexp(np.float32(1), exponents - 1)

    monkeypatch.setattr(channels, "least_noise_factors", _rounded)
    monkeypatch.setattr(channels, "within_range", lambda factors, *_: factors)
    mod = stream()
    data = dataset(images(mod, 12))
    found = quantize(mod, data, keep_histograms=True)
    assert found.table.factors["s0"].max() >= 4
    scaled = with_factors(mod, found.table.factors)
    wanted = quantize(scaled, data, PLAIN, keep_histograms=True)
    assert found.digest == wanted.digest
    named = {"model_hash": wanted.table.model_hash, "weights_hash": wanted.table.weights_hash}
    assert replace(found.table, factors={}, **named).to_json() == wanted.table.to_json()


def test_factors_of_another_network_are_refused():
    mod = stream()
    factors = {"s0": np.ones(CHANNELS - 1, "float32")}
    with pytest.raises(CalibrationError, match="s0, which the model has not beside"):
        with_factors(mod, factors)


def test_windows_of_a_constant_image_have_no_channels():
    """As StyleGAN's generator begins, whose weights are computed of a style."""
    net = NetworkWriter((4, 3, 3, 3))
    y = net.emit("y", nn.conv2d(net.constant(1, 3, 5, 5), net.x, padding=1))
    assert find_streams(normalize()(net.module(y))["main"]) == {}
