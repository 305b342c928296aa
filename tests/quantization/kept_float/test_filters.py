"""Depthwise layers that would magnify the rounding of what they read stay in float."""

import numpy as np
import pytest
from tvm import relax

import relay_int8
from relay_int8 import QuantConfig
from relay_int8.api.model import Model
from relay_int8.api.quantize import Quantized
from relay_int8.quantization.kept_float import filters
from tests.quantized_networks import oracle_snr_db
from tests.small_networks import NetworkWriter

CHANNELS, SIDE = 8, 12


def network(small: float, activation: str = "swish", behind: float = 0.0) -> Model:
    """Return conv -> swish -> depthwise -> conv; one channel is small, its filter enlarges it.

    What the depthwise layer reads is added behind that as well, so that its channels cannot be
    scaled. With ``behind`` a swish follows the filter, and that number multiplies it.
    """
    net = NetworkWriter((1, CHANNELS, SIDE, SIDE))
    rng = np.random.default_rng(0)
    sizes = np.ones((CHANNELS, 1, 1, 1), np.float32)
    sizes[0] = small
    w = sizes * rng.normal(0, 0.4, (CHANNELS, CHANNELS, 1, 1)).astype("float32")
    y = net.emit("before", relax.op.nn.conv2d(net.x, relax.const(w)))
    if activation == "swish":
        y = net.emit("swish", relax.op.multiply(y, net.emit("gate", relax.op.sigmoid(y))))
    else:
        y = net.relu("relu", y)
    read_twice = y
    w = rng.normal(0, 0.4, (CHANNELS, 1, 3, 3)).astype("float32") / sizes
    y = net.emit("filter", relax.op.nn.conv2d(y, relax.const(w), groups=CHANNELS, padding=1))
    if behind:
        second = net.emit("second", relax.op.nn.silu(y))
        y = net.emit("scaled", relax.op.multiply(second, relax.const(behind)))
    w = rng.normal(0, 0.4, (CHANNELS, CHANNELS, 1, 1)).astype("float32")
    y = net.emit("after", relax.op.nn.conv2d(y, relax.const(w)))
    y = net.emit("sum", relax.op.add(y, read_twice))
    w = rng.normal(0, 0.4, (4, CHANNELS, 1, 1)).astype("float32")
    return Model(module=net.module(net.emit("y", relax.op.nn.conv2d(y, relax.const(w)))))


def images(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    shape = (1, CHANNELS, SIDE, SIDE)
    return [{"x": rng.normal(size=shape).astype("float32")} for _ in range(count)]


def quantized(small: float, activation: str = "swish", **options: object) -> Quantized:
    return relay_int8.quantize(network(small, activation), images(8, 0), QuantConfig(**options))


def reasons(made: Quantized) -> dict[str, str | None]:
    return {layer.name: layer.reason for layer in made.network.plan.layers}


@pytest.mark.fast
def test_a_filter_that_enlarges_a_small_channel_and_the_function_before_it_stay_in_float():
    made = quantized(0.01)
    found = reasons(made)
    assert "rounding its input" in found["filter"]
    assert found["swish"]
    assert found["before"] is None
    assert found["y"] is None
    assert relay_int8.quantize(made.model, made.table).digest == made.digest


@pytest.mark.fast
def test_so_does_a_convolution_with_relu_before_it():
    found = reasons(quantized(0.01, "relu"))
    assert "rounding its input" in found["filter"]
    assert "filter reads it" in found["relu"]
    assert found["y"] is None


@pytest.mark.fast
@pytest.mark.parametrize("activation", ["swish", "relu"])
def test_filters_of_channels_of_one_size_are_integers(activation: str):
    assert not any(reasons(quantized(1.0, activation)).values())


@pytest.mark.fast
def test_what_a_function_makes_smaller_is_not_magnified():
    made = relay_int8.quantize(network(1.0, behind=0.01), images(8, 0))
    found = reasons(made)
    assert "scaled" in found and not any(found.values())


@pytest.mark.fast
def test_where_integers_are_required_it_is_integers():
    assert not any(reasons(quantized(0.01, require_int8=True)).values())


@pytest.mark.fast
@pytest.mark.parametrize("activation", ["swish", "relu"])
def test_it_is_nearer_to_the_float_network(activation: str, monkeypatch: pytest.MonkeyPatch):
    unseen = images(4, 1)

    def decibels() -> float:
        return oracle_snr_db(quantized(0.01, activation).network, unseen)

    here = decibels()
    monkeypatch.setattr(filters, "MOST", np.inf)
    assert here > decibels() + 6
