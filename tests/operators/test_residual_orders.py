"""Slopes and functions of sums with a residual, and residuals added behind them: one kernel each."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.lower.realize import realized_groups
from relay_int8.export.qdq import export_qdq
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.groups import find_groups
from relay_int8.graph.plan import Plan
from relay_int8.quantization.adopt import adopt
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.simulation import Simulation
from schedules.targets import named_target
from tests import reference
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_80
from tests.quantized_networks import (
    QuantizedNetwork,
    assert_equals_oracle,
    assert_found_equals_oracle,
)
from tests.small_networks import NetworkWriter, any_params, nn
from tests.x86_targets import X86


def network() -> tvm.IRModule:
    """PReLU and swish of a sum; ReLU, a slope, swish and a moved hard-swish in front."""
    net = NetworkWriter()
    x = net.relu("x0", net.conv("x0/bias", net.x, 20, 3, padding=1))
    a = relax.op.add(net.conv("a/conv", x, 20, 3, padding=1, groups=20), x)
    slopes = relax.const(np.linspace(-0.3, 0.6, 20, dtype=np.float32))
    y = net.emit("prelu", nn.prelu(net.emit("a", a), slopes))
    b = net.emit("b", relax.op.add(y, net.conv("b/bias", y, 20, 1)))
    y = net.emit("swish", nn.silu(b))
    for name in ("relu", "slope", "silu", "hard"):
        z = _activated(net, name, net.conv(f"{name}/bias", y, 20, 3, padding=1))
        y = net.emit(name, relax.op.add(y, z))
    return net.module(net.conv("y", y, 6, 1))


def _activated(net: NetworkWriter, name: str, x: relax.Var) -> relax.Var:
    if name == "relu":
        y = nn.relu(x)
    elif name == "slope":
        y = nn.leakyrelu(x, 0.2)
    elif name == "silu":
        y = nn.silu(x)
    else:
        shifted = net.emit(f"{name}/3", relax.op.add(x, relax.const(3.0)))
        bounded = net.emit(f"{name}/clip", relax.op.clip(shifted, 0, 6))
        times = net.emit(f"{name}/times", relax.op.multiply(x, bounded))
        sixth = net.emit(f"{name}/sixth", relax.op.divide(times, relax.const(6.0)))
        scaled = net.emit(f"{name}/scaled", relax.op.multiply(sixth, relax.const(0.4)))
        y = relax.op.add(scaled, relax.const(-0.3))
    return net.emit(f"{name}/of", y)


OF_SUMS, BEHIND = {"prelu", "swish"}, {"relu", "slope", "silu", "hard"}


@pytest.fixture(scope="module")
def quantized() -> QuantizedNetwork:
    return QuantizedNetwork.make(network())


@pytest.mark.parametrize("target", X86)
def test_equals_oracle(quantized: QuantizedNetwork, target: str):
    integer = {group.name for group, why in realized_groups(quantized.mod) if why is None}
    assert integer == {"x0", "y", *OF_SUMS, *BEHIND}
    assert_equals_oracle(quantized, named_target(target))
    for name in (*OF_SUMS, *BEHIND):
        assert np.unique(quantized.expected[f"{name}:q"]).size > 20, name


def test_a_gpu_equals_oracle(quantized: QuantizedNetwork):
    emulated = EmulatedNetwork(quantized.mod, SM_80)
    assert_found_equals_oracle(quantized, emulated.run(quantized.inputs))


@pytest.mark.fast
def test_they_are_one_layer():
    mod = network()
    plan = annotate(mod, QuantConfig())
    assert {layer.name for layer in plan.layers} == {"x0", "y", *OF_SUMS, *BEHIND}
    assert {layer.kind for layer in plan.layers} == {"conv2d"}


@pytest.mark.fast
@pytest.mark.parametrize(
    ("config", "apart"),
    [
        (QuantConfig(exclude=("silu",)), {"silu", "silu/of"}),
        (QuantConfig(exclude=("hard",)), {"hard", "hard/of"}),
        (QuantConfig(exclude=("a",)), {"a", "prelu", "a/conv"}),
        (QuantConfig(requantize="gemmlowp"), {"a", "prelu", "b", "swish", "silu/of", "hard/of"}),
    ],
    ids=["an addition", "another", "an addition before", "fixed point"],
)
def test_what_stays_apart(config: QuantConfig, apart: set[str]):
    mod = network()
    plan = annotate(mod, config)
    assert apart <= {layer.name for layer in plan.layers}
    assert Plan.from_json(plan.to_json()).additions == plan.additions
    groups = [group.name for group in find_groups(mod["main"], plan.additions)]
    assert groups == [layer.name for layer in plan.layers]


@pytest.mark.fast
def test_numpy_simulates_the_integers():
    mod = network()
    quantized = QuantizedNetwork.make(mod, any_params)
    simulation = Simulation(plan=quantized.plan, params=any_params(quantized.plan))
    simulated = NumpyNetwork(mod, quantized.plan.additions).run(quantized.inputs, simulation)
    np.testing.assert_allclose(simulated["y"], quantized.expected["y"], atol=0.05)


@pytest.mark.fast
def test_an_adopted_file_keeps_them(quantized: QuantizedNetwork):
    again = adopt(import_onnx(export_qdq(quantized.mod)))
    assert {layer.name for layer in again.plan.layers} == {"x0", "y", *OF_SUMS, *BEHIND}
    found = reference.run(again.mod, quantized.inputs)
    for name in (*OF_SUMS, *BEHIND):
        np.testing.assert_array_equal(found[f"{name}:q"], quantized.expected[f"{name}:q"])


@pytest.mark.fast
def test_floats_have_slopes_in_one_kernel():
    groups = find_groups(network()["main"], attention=False, functions=False)
    assert {"prelu", "relu", "slope"} <= {group.name for group in groups if group.kind == "conv2d"}
