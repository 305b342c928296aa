"""Layers whose rounding would turn the angles of sines and cosines far stay in float."""

import numpy as np
import pytest
from tvm import relax

import relay_int8
from relay_int8 import QuantConfig
from relay_int8.api.model import Model
from relay_int8.api.quantize import Quantized
from relay_int8.quantization.kept_float import angles
from tests.quantized_networks import oracle_snr_db
from tests.small_networks import NetworkWriter

POINTS, WIDTH = 48, 16


def network(frequency: float) -> Model:
    """Return coordinates -> dense, twice in a row -> sine and cosine, which no integer reads."""
    net = NetworkWriter((1, POINTS, 2))
    dense = net.emit("dense", relax.op.matmul(net.x, net.constant(2, WIDTH, scale=frequency)))
    twice = net.emit("twice", relax.op.concat([dense, dense], axis=-1))
    turned = net.emit("turned", relax.op.permute_dims(twice, [0, 2, 1]))
    sine, cosine = (
        net.emit(name, call(turned)) for name, call in (("s", relax.op.sin), ("c", relax.op.cos))
    )
    return Model(module=net.module(net.emit("y", relax.op.concat([sine, cosine], axis=1))))


def images(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.uniform(-1, 1, (1, POINTS, 2)).astype("float32")} for _ in range(count)]


def quantized(frequency: float, **options: object) -> Quantized:
    return relay_int8.quantize(network(frequency), images(8, 0), QuantConfig(**options))


def dense_reason(made: Quantized) -> str | None:
    return next(layer.reason for layer in made.network.plan.layers if layer.name == "dense")


@pytest.mark.fast
def test_a_layer_of_fourier_features_stays_in_float():
    made = quantized(40)
    assert "would turn the angles of sines and cosines by" in (dense_reason(made) or "")
    assert relay_int8.quantize(made.model, made.table).digest == made.digest


@pytest.mark.fast
def test_a_layer_of_less_than_a_turn_is_integers():
    assert dense_reason(quantized(0.5)) is None


@pytest.mark.fast
@pytest.mark.parametrize(("frequency", "stays"), [(40, True), (0.3, False)])
def test_a_convolution_of_several_taps(frequency, stays):
    """Snake activations of DAC's and BigVGAN's vocoders are sines of what convolutions give."""
    net = NetworkWriter((1, 2, 6, 8))
    w = net.constant(4, 2, 3, 3, scale=frequency / 18**0.5)
    dense = net.emit("dense", relax.op.nn.conv2d(net.x, w))
    model = Model(module=net.module(net.emit("y", relax.op.sin(dense))))
    rng = np.random.default_rng(0)
    data = [{"x": rng.uniform(-1, 1, (1, 2, 6, 8)).astype("float32")} for _ in range(4)]
    reason = dense_reason(relay_int8.quantize(model, data, QuantConfig()))
    assert ("would turn the angles" in (reason or "")) == stays


@pytest.mark.fast
def test_where_integers_are_required_it_is_integers():
    assert dense_reason(quantized(40, require_int8="products")) is None


@pytest.mark.fast
def test_it_is_nearer_to_the_float_network(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(angles, "MOST", np.inf)
    assert oracle_snr_db(quantized(40).network, images(4, 1)) < 20


def test_factors_on_the_way_multiply_the_error():
    net = NetworkWriter((1, POINTS, 2))
    dense = net.emit("dense", relax.op.matmul(net.x, net.constant(2, WIDTH, scale=0.5)))
    sine = net.emit("sine", relax.op.sin(net.emit("fast", relax.op.multiply(dense, _scalar(100)))))
    y = net.emit("y", relax.op.subtract(sine, dense))
    made = relay_int8.quantize(Model(module=net.module(y)), images(8, 0), QuantConfig())
    assert "angles" in (dense_reason(made) or "")


def _scalar(value: float) -> relax.Expr:
    return relax.const(value, "float32")
