"""Layers in front of recurrent ones: those whose rounding would swing the gates stay in float."""

import numpy as np
import onnx
import pytest

import relay_int8
from relay_int8 import QuantConfig
from relay_int8.api.model import Model
from relay_int8.api.quantize import Quantized
from relay_int8.frontend.onnx import import_onnx
from relay_int8.numerics.snr import snr_db
from relay_int8.quantization.kept_float import gates
from tests.onnx_models import model, run_onnx
from tests.recurrent_networks import SIZE, STEPS, recurrent_model
from tests.reference import run


def powers(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    """Return inputs like powers of mel bands: never negative, over four decades."""
    rng = np.random.default_rng(seed)
    return [
        {"x": (10 ** rng.uniform(-3, 1, (STEPS, 1, SIZE))).astype("float32")} for _ in range(count)
    ]


def network(operator: str, loudness: float) -> onnx.ModelProto:
    """Return a recurrent layer and a dense one, with weights for inputs of ``loudness``."""
    rng = np.random.default_rng(1)
    proto = recurrent_model(operator, dense=6, outputs=("", "Y_h"))
    nodes = list(proto.graph.node)[1:]
    weights = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}
    weights["W"] = (rng.normal(0, 0.5, weights["W"].shape) * loudness).astype("float32")
    del weights["V"]
    nodes[0].input[0] = "x"
    return model(nodes, {"x": (STEPS, 1, SIZE)}, {"logits": None}, weights, opset=14)


def quantized(proto: onnx.ModelProto, data: object, **options: object) -> Quantized:
    return relay_int8.quantize(Model(module=import_onnx(proto)), data, QuantConfig(**options))


def first_reason(made: Quantized) -> str | None:
    """Return why the layer in front of the recurrent one stays in float."""
    return next(layer.reason for layer in made.network.plan.layers if layer.kind == "dense")


@pytest.mark.fast
@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_large_weights_for_inputs_of_many_sizes_stay_in_float(operator: str):
    made = quantized(network(operator, 30), powers(8, 0))
    assert "gates" in (first_reason(made) or "")
    assert all(layer.integer for layer in made.network.plan.layers if layer.kind == "recurrence")
    again = relay_int8.quantize(made.model, made.table)
    assert again.digest == made.digest


@pytest.mark.fast
def test_weights_of_the_inputs_size_are_integers():
    assert first_reason(quantized(network("LSTM", 0.3), powers(8, 0))) is None


@pytest.mark.fast
def test_where_integers_are_required_it_is_integers():
    made = quantized(network("LSTM", 30), powers(8, 0), require_int8="products")
    assert first_reason(made) is None


@pytest.mark.fast
def test_it_is_nearer_to_the_float_network(monkeypatch: pytest.MonkeyPatch):
    proto, unseen = network("LSTM", 30), powers(16, 1)
    wanted = np.concatenate([run_onnx(proto, each["x"])[0] for each in unseen])

    def decibels() -> float:
        mod = quantized(proto, powers(16, 0)).network.mod
        return snr_db(wanted, np.concatenate([run(mod, each)["logits"] for each in unseen]))

    after = decibels()
    monkeypatch.setattr(gates, "MOST", np.inf)
    assert after > decibels() + 6
