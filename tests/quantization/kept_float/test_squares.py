"""Layers that read squares stay in float if these are mostly smaller than a step of a byte."""

import numpy as np
import pytest
from tvm import relax

import relay_int8
from relay_int8 import QuantConfig
from relay_int8.api.model import Model
from relay_int8.api.quantize import Quantized
from tests.quantized_networks import oracle_snr_db
from tests.small_networks import NetworkWriter

SHAPE = (1, 8, 12, 12)


def network(square: str) -> Model:
    net = NetworkWriter(SHAPE)
    x = net.conv("hidden", net.x, 8, 1)
    two = relax.const(np.float32(2))
    squares = relax.op.multiply(x, x) if square == "product" else relax.op.power(x, two)
    return Model(module=net.module(net.conv("y", net.emit("squares", squares), 4, 1)))


def images(count: int, seed: int, largest: float) -> list[dict[str, np.ndarray]]:
    """Return noise in which a few positions are ``largest`` times as large."""
    rng = np.random.default_rng(seed)
    factors = np.where(rng.random((count, 1, 1, *SHAPE[2:])) < 0.02, largest, 1)
    return [{"x": x} for x in (rng.normal(size=(count, *SHAPE)) * factors).astype("float32")]


def quantized(square: str, largest: float, **options: object) -> Quantized:
    return relay_int8.quantize(network(square), images(8, 0, largest), QuantConfig(**options))


def floats(made: Quantized) -> dict[str, str | None]:
    """Return the layers in float, and why."""
    layers = made.network.plan.layers
    return {layer.name: layer.reason for layer in layers if layer.macs and not layer.integer}


@pytest.mark.parametrize("square", ["product", "power"])
def test_what_reads_squares_of_rare_large_values_stays_in_float(square: str):
    made = quantized(square, 30)
    assert list(floats(made)) == ["y"]
    assert "more than their mean" in str(floats(made)["y"])
    assert relay_int8.quantize(made.model, made.table).digest == made.digest


def test_squares_of_values_of_a_size_are_integers():
    assert not floats(quantized("power", 2))


def test_where_integers_are_required_they_are_integers():
    assert not floats(quantized("power", 30, require_int8=True))


def test_usual_values_are_nearer_to_the_float_network():
    usual = images(4, 1, 1)

    def decibels(**options: object) -> float:
        return oracle_snr_db(quantized("power", 30, **options).network, usual)

    assert decibels() > decibels(require_int8=True) + 9
