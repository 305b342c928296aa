"""Functions steep enough to multiply the rounding of what they read stay in float."""

import numpy as np
import pytest
from tvm import relax

import relay_int8
from relay_int8 import QuantConfig
from relay_int8.api.model import Model
from relay_int8.api.quantize import Quantized
from relay_int8.quantization.kept_float import steep
from tests.quantized_networks import oracle_snr_db
from tests.small_networks import NetworkWriter

POINTS, WIDTH = 48, 16


def network(frequency: float) -> Model:
    """Return coordinates -> dense -> sine -> dense -> sine -> dense."""
    net = NetworkWriter((1, POINTS, 2))
    x = net.x
    for layer, (inputs, scale) in enumerate(((2, frequency), (WIDTH, WIDTH**-0.5))):
        w = net.constant(inputs, WIDTH, scale=scale)
        y = net.emit(f"dense{layer}", relax.op.matmul(x, w))
        x = net.emit(f"sine{layer}", relax.op.sin(y))
    return Model(module=net.module(net.emit("y", relax.op.matmul(x, net.constant(WIDTH, 3)))))


def images(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [{"x": rng.uniform(-1, 1, (1, POINTS, 2)).astype("float32")} for _ in range(count)]


def quantized(frequency: float, **options: object) -> Quantized:
    return relay_int8.quantize(network(frequency), images(8, 0), QuantConfig(**options))


def reasons(made: Quantized) -> dict[str, str | None]:
    return {layer.name: layer.reason for layer in made.network.plan.layers}


@pytest.mark.fast
def test_a_sine_of_many_periods_and_the_coordinates_before_it_stay_in_float():
    made = quantized(10)
    found = reasons(made)
    assert "its argument" in found["sine0"]
    assert "sine0 reads it" in found["dense0"]
    assert all(found[name] is None for name in ("dense1", "sine1", "y"))
    assert relay_int8.quantize(made.model, made.table).digest == made.digest


@pytest.mark.fast
def test_a_sine_of_less_than_a_period_is_integers():
    assert not any(reasons(quantized(0.5)).values())


@pytest.mark.fast
def test_where_integers_are_required_it_is_integers():
    assert not any(reasons(quantized(10, require_int8=True)).values())


@pytest.mark.fast
def test_it_is_nearer_to_the_float_network(monkeypatch: pytest.MonkeyPatch):
    unseen = images(4, 1)

    def decibels() -> float:
        return oracle_snr_db(quantized(10).network, unseen)

    after = decibels()
    monkeypatch.setattr(steep, "MOST", np.inf)
    assert after > decibels() + 9
