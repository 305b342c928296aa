"""Recurrent layers in integers: one kernel each, the oracle's integers everywhere."""

from dataclasses import replace

import numpy as np
import pytest
import tvm
from onnx import numpy_helper

from relay_int8.compiler.build import compile_module
from relay_int8.compiler.passes.lower.realize import realized_groups
from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import UnsupportedOpError
from relay_int8.export.qdq import export_qdq
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.plan import LayerPlan
from relay_int8.numerics.qparams import activation
from relay_int8.numerics.snr import snr_db
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.simulation import Simulation
from schedules.targets import named_target
from tests.mxnet_models import run_lowered
from tests.quantized_networks import QuantizedNetwork, assert_equals_oracle
from tests.recurrent_networks import BOTH, HIDDEN, SIZE, STEPS, recurrent_model
from tests.x86_targets import FASTEST, NEEDED, case

NETWORKS = {
    "lstm": {"operator": "LSTM", "dense": 7, "batch": 2},
    "lstm_last": {"operator": "LSTM", "dense": 7, "outputs": ("", "Y_h")},
    "lstm_both": {"operator": "LSTM", "direction": BOTH, "dense": 6},
    "lstm_memory": {"operator": "LSTM", "outputs": ("Y", "Y_h", "Y_c")},
    "gru": {"operator": "GRU", "dense": 5, "direction": "reverse"},
    "gru_product": {"operator": "GRU", "dense": 5, "linear_before_reset": 1},
    "rnn": {"operator": "RNN", "dense": 5},
    "lstm_given": {"operator": "LSTM", "dense": 7, "given": True},
    "gru_given": {"operator": "GRU", "dense": 5, "given": True, "linear_before_reset": 1},
}


def canonical(name: str) -> tvm.IRModule:
    return normalize()(import_onnx(recurrent_model(**NETWORKS[name])))


def quantized(mod: tvm.IRModule, **options) -> QuantizedNetwork:
    rng = np.random.default_rng(1)
    inputs = {
        str(param.name): rng.normal(size=[int(size) for size in param.ty.shape]).astype(np.float32)
        for param in mod["main"].params
    }
    return QuantizedNetwork.make(mod, inputs=inputs, **options)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        *((FASTEST, name) for name in NETWORKS),
        *(case(target, name) for target in NEEDED if target != FASTEST for name in ("lstm", "gru")),
    ],
)
def test_equals_oracle(target: str, name: str):
    network = quantized(canonical(name))
    assert [layer.name for layer in network.plan.layers if layer.macs and not layer.integer] == []
    groups = realized_groups(network.mod)
    assert [why for group, why in groups if group.kind == "recurrence"].count(None)
    assert_equals_oracle(network, named_target(target), fewest=1)


def test_integers_are_near_the_floats():
    mod = canonical("lstm")
    network = quantized(mod)
    (expected,) = run_lowered(mod, network.inputs["x"])
    (found,) = run_lowered(network.mod, network.inputs["x"])
    assert snr_db(expected, found) > 20


@pytest.mark.fast
def test_products_are_counted():
    plan = annotate(canonical("lstm"), QuantConfig())
    (layer,) = (layer for layer in plan.layers if layer.kind == "recurrence")
    assert layer.integer and layer.macs == 2 * STEPS * 4 * HIDDEN * HIDDEN
    products = sum(layer.macs for layer in plan.layers)
    inputs = 2 * STEPS * SIZE * 4 * HIDDEN  # the linear layer before is part of it (JoinDense)
    assert products == layer.macs + inputs + 2 * STEPS * HIDDEN * 7


def test_excluded_it_is_float():
    mod = canonical("gru")
    plan = annotate(mod, QuantConfig(exclude=("recurrence",)))
    (layer,) = (layer for layer in plan.layers if layer.kind == "recurrence")
    assert layer.reason == "excluded by the user" and not layer.integer
    network = quantized(mod)
    params = {name: activation("s8", -1.0, 1.0) for name in plan.calibrated}
    unpaired = InsertQdq(plan, params)(mod)
    reasons = {group.kind: why for group, why in realized_groups(unpaired)}
    assert "are not int8 with zero point 0 and a scale a row" in str(reasons["recurrence"])
    reasons = {group.kind: why for group, why in realized_groups(network.mod)}
    assert reasons["recurrence"] is None


def test_in_fixed_point_its_state_is_float():
    network = quantized(canonical("gru_product"), requantize="tpu-mlir")
    (layer,) = (layer for layer in network.plan.layers if layer.kind == "recurrence")
    assert layer.reason == "recurrence has no fixed-point form"
    built = compile_module(network.mod, named_target("x86"))
    assert "recurrence_f32" in {call.template for call in built.calls}


def test_kernels_of_integers_are_said_to_be():
    network = quantized(canonical("lstm_both"))
    built = compile_module(network.mod, named_target("x86-avx2"))
    entries = [call.entry for call in built.calls if call.template == "recurrence_avx2"]
    assert [(entry.arithmetic, entry.is_exact) for entry in entries] == [("int8", True)] * 2
    floats = compile_module(canonical("lstm_both"), named_target("x86-avx2"))
    entries = [call.entry for call in floats.calls if call.template == "recurrence_f32"]
    assert [(entry.arithmetic, entry.is_exact) for entry in entries] == [("float32", False)] * 2


@pytest.mark.fast
def test_there_is_no_qdq_form():
    network = quantized(canonical("gru"))
    with pytest.raises(UnsupportedOpError, match="no form of a recurrent layer's loop"):
        export_qdq(network.mod)


def test_the_simulation_has_integers_too():
    mod = canonical("lstm_last")
    network = quantized(mod)
    config = QuantConfig()
    plan = annotate(mod, config)
    state = replace(plan, layers=tuple(only(layer, "recurrence") for layer in plan.layers))
    numpy = NumpyNetwork(mod)
    stacked = numpy.stacked([network.inputs])
    (expected,) = numpy.run(stacked).values()
    (found,) = numpy.run(stacked, Simulation(plan=state, params={})).values()
    assert 20 < snr_db(expected, found) < 70


def only(layer: LayerPlan, kind: str) -> LayerPlan:
    return layer if layer.kind == kind else replace(layer, reason="it is left out")


@pytest.mark.parametrize("name", ["lstm_given", "gru_given"])
def test_a_first_state_that_was_learned(name: str):
    proto = recurrent_model(**NETWORKS[name])
    states = list(proto.graph.input[1:])
    del proto.graph.input[1:]
    for state in states:
        sizes = [dim.dim_value for dim in state.type.tensor_type.shape.dim]
        array = np.random.default_rng(3).normal(size=sizes).astype(np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(array, state.name))
    network = quantized(normalize()(import_onnx(proto)))
    (layer,) = (layer for layer in network.plan.layers if layer.kind == "recurrence")
    assert layer.integer
    assert_equals_oracle(network, named_target(FASTEST), fewest=1)
