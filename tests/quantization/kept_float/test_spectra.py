"""Spectra of sound stay in float: which layers belong to the transform, and which do not."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.pipeline import normalized
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.kept_float.spectra import POWER_REASON, REASON
from tests.small_networks import NetworkWriter, nn

BINS = 8
RNG = np.random.default_rng(0)


def spectrum(
    *,
    bias=False,
    relu=False,
    filtered=False,
    emphasized=False,
    read_too=False,
    square="power",
    mel=False,
):
    """Return conv (real and imaginary parts) -> squares -> sum -> root -> conv, relu, conv.

    With ``mel`` a convolution reads the sum, and the root is of its result; with ``emphasized`` the
    first reads differences of samples, those that a mask takes.
    """
    net = NetworkWriter((1, 1, 1, 64))
    x = net.emit("padded", nn.pad(net.x, [0, 0, 0, 0, 0, 0, 4, 4], "reflect"))
    if emphasized:
        before = net.emit("before", relax.op.strided_slice(x, [3], [0], [71]))
        behind = net.emit("behind", relax.op.strided_slice(x, [3], [1], [72]))
        scaled = net.emit("scaled", relax.op.multiply(before, relax.const(np.float32(0.97))))
        x = net.emit("differences", relax.op.subtract(behind, scaled))
        mask = relax.const((np.arange(71) < 60).reshape(1, 1, 1, 71))
        x = net.emit("taken", relax.op.where(mask, x, relax.const(np.float32(0))))
    if filtered:
        x = net.emit("low", nn.conv2d(x, net.constant(1, 1, 1, 5), padding=(0, 2)))
    basis = net.constant(2 * BINS, 1, 1, 16)
    parts = net.emit("parts/conv" if bias else "parts", nn.conv2d(x, basis, strides=(1, 4)))
    if bias:
        parts = net.emit("parts", relax.op.add(parts, net.constant(1, 2 * BINS, 1, 1)))
    if relu:
        parts = net.relu("positive", parts)
    squares = []
    for name, first in (("real", 0), ("imaginary", BINS)):
        part = net.emit(name, relax.op.strided_slice(parts, [1], [first], [first + BINS]))
        two = relax.const(np.float32(2))
        value = relax.op.power(part, two) if square == "power" else relax.op.multiply(part, part)
        squares.append(net.emit(f"{name}/square", value))
    power = net.emit("sum", relax.op.add(*squares))
    if mel:
        filters = np.abs(RNG.normal(size=(BINS // 2, BINS, 1, 1))).astype(np.float32)
        power = net.emit("mel", nn.conv2d(power, relax.const(filters)))
    size = net.emit("size", relax.op.sqrt(power))
    y = net.relu("relu", net.conv("hidden", size, 8, (1, 3)))
    y = net.conv("y", y, 4, 1)
    if read_too:
        z = net.conv("z", net.relu("other", parts), 4, (1, 1))
        return net.module(y, z)
    return net.module(y)


def framed(*, ranged="both", power=0.4):
    """Return a recording in frames, brought to one range, times a window, through one product.

    ``ranged``: "both" subtracts the least sample and divides by the largest; "inverse" divides by
    the samples, which is not linear; "" does neither.
    """
    net = NetworkWriter((1, 64))
    x = net.x
    if ranged == "both":
        least = net.emit("least", relax.op.min(x, [1], keepdims=True))
        x = net.emit("above", relax.op.subtract(x, least))
        largest = net.emit("largest", relax.op.max(x, [1], keepdims=True))
        bound = net.emit("bound", relax.op.add(largest, relax.const(np.float32(1e-6))))
        x = net.emit("ratio", relax.op.divide(x, bound))
        x = net.emit("centred", relax.op.subtract(x, relax.const(np.float32(0.5))))
    if ranged == "inverse":
        x = net.emit("ratio", relax.op.divide(relax.const(np.float32(1)), x))
    starts = np.arange(0, 49, 8)[:, None] + np.arange(16)
    frames = net.emit("frames", relax.op.take(x, relax.const(starts, "int32"), axis=1))
    window = net.emit("window", relax.op.multiply(frames, relax.const(np.hanning(16), "float32")))
    mel = net.emit("mel", relax.op.matmul(window, net.constant(16, BINS)))
    square = net.emit("square", relax.op.multiply(mel, mel))
    root = net.emit("root", relax.op.power(square, relax.const(np.float32(power))))
    y = net.emit("hidden", relax.op.matmul(root, net.constant(BINS, 4)))
    return net.module(net.relu("y", y))


@pytest.mark.fast
@pytest.mark.parametrize("ranged", ["both", ""])
def test_a_recording_in_one_range_stays_in_float(ranged):
    found = layers(framed(ranged=ranged))
    assert found["mel"].reason == REASON
    assert found["hidden"].integer


@pytest.mark.fast
@pytest.mark.parametrize("changes", [{"ranged": "inverse"}, {"power": 0.5}])
def test_other_functions_of_a_recording_are_integers(changes):
    """A quotient by the samples is not linear, and abs(x) compresses nothing."""
    assert layers(framed(**changes))["mel"].integer


@pytest.mark.fast
def test_a_tuple_is_no_number():
    """The results of a sort have one variable."""
    net = NetworkWriter((1, 16))
    both = net.emit("both", relax.op.topk(net.x, 8, ret_type="both"))
    values = net.emit("values", relax.TupleGetItem(both, 0))
    y = net.emit("hidden", relax.op.matmul(values, net.constant(8, 4)))
    assert layers(net.module(net.relu("y", y)))["hidden"].integer


def layers(mod, config=None):
    plan = annotate(normalized(mod)[0], config or QuantConfig())
    return {layer.root.split("/")[0]: layer for layer in plan.layers if layer.macs}


@pytest.mark.fast
@pytest.mark.parametrize("square", ["power", "product"])
@pytest.mark.parametrize("filtered", [False, True])
def test_a_spectrum_stays_in_float(square, filtered):
    found = layers(spectrum(square=square, filtered=filtered))
    transform = ["low", "parts"] if filtered else ["parts"]
    assert [found[name].reason for name in transform] == [REASON] * len(transform)
    assert found["hidden"].integer and found["y"].integer


@pytest.mark.fast
def test_so_does_one_of_differences_of_the_input():
    found = layers(spectrum(emphasized=True))
    assert found["parts"].reason == REASON
    assert found["hidden"].integer and found["y"].integer


@pytest.mark.fast
@pytest.mark.parametrize("square", ["power", "product"])
def test_what_reads_the_power_stays_in_float(square):
    found = layers(spectrum(square=square, mel=True))
    assert (found["parts"].reason, found["mel"].reason) == (REASON, POWER_REASON)
    assert found["hidden"].integer and found["y"].integer
    of_integers = layers(spectrum(square=square, mel=True, bias=True))
    assert of_integers["parts"].integer and of_integers["mel"].integer


@pytest.mark.fast
@pytest.mark.parametrize("changes", [{"bias": True}, {"relu": True}, {"read_too": True}])
def test_other_layers_are_integers(changes):
    assert layers(spectrum(**changes))["parts"].integer


@pytest.mark.fast
def test_where_integers_are_required_it_is_integers():
    assert layers(spectrum(), QuantConfig(require_int8="products"))["parts"].integer
