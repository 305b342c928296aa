"""Functions in the epilogue of a layer: which layers take them, and the oracle's integers."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.lower.realize import realized_groups
from relay_int8.graph.group import Smooth
from relay_int8.graph.groups import find_groups
from relay_int8.graph.plan import Plan
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig, Tools
from schedules.targets import named_target
from tests.quantized_networks import (
    QuantizedNetwork,
    adopted_again,
    assert_equals_oracle,
    assert_simulated,
)
from tests.small_networks import NetworkWriter, nn, shape
from tests.x86_targets import X86


def network() -> tvm.IRModule:
    """Swish, GELU by tanh, hard-swish and sigmoid behind convolutions and a dense layer."""
    net = NetworkWriter()
    a = net.emit("a", nn.silu(net.conv("a/bias", net.x, 20, 3, padding=1)))
    b = net.emit("b", nn.gelu_tanh(net.conv("b/conv", a, 20, 3, padding=1, groups=20)))
    c = net.conv("c/bias", b, 12, 1)
    slope = net.emit("c/slope", relax.op.clip(net.emit("c3", relax.op.add(c, number(3.0))), 0, 6))
    swish = net.emit("c/6", relax.op.multiply(c, slope))
    d = net.emit("d", relax.op.divide(swish, number(6.0)))
    mean = net.emit("mean", nn.avg_pool2d(d, pool_size=shape(d)[2:]))
    gate = net.emit("gate", relax.op.sigmoid(net.conv("gate/bias", mean, 12, 1)))
    e = net.emit("e", relax.op.multiply(d, gate))
    flat = net.emit("flat", relax.op.reshape(e, (1, -1)))
    dense = net.emit("dense", relax.op.matmul(flat, net.constant(shape(flat)[1], 9)))
    f = net.emit("f", nn.gelu(dense))
    return net.module(net.emit("y", relax.op.matmul(f, net.constant(9, 5))))


def number(value: float) -> relax.Expr:
    return relax.const(value)


def absorbed(mod: tvm.IRModule, plan: Plan) -> dict[str, str]:
    """Return name -> function of the layers that have one in their epilogue."""
    groups = find_groups(mod["main"], plan.additions)
    return {
        group.name: group.activation.name
        for group in groups
        if isinstance(group.activation, Smooth)
    }


NAMES = {"a": "swish", "b": "gelu_tanh", "d": "hard_swish", "gate": "sigmoid", "f": "gelu"}


@pytest.mark.parametrize("target", X86)
def test_equals_oracle(target: str):
    quantized = QuantizedNetwork.make(network())
    assert {group.name for group, why in realized_groups(quantized.mod) if why is None} >= {*NAMES}
    assert_equals_oracle(quantized, named_target(target))
    for name in ("a", "b", "d"):
        assert np.unique(quantized.expected[f"{name}:q"]).size > 20, name


@pytest.mark.fast
def test_layers_take_their_functions():
    mod = network()
    plan = annotate(mod, QuantConfig())
    assert absorbed(mod, plan) == NAMES
    assert not {layer.kind for layer in plan.layers} & {"function", "sigmoid", "nn.silu", "nn.gelu"}
    assert Plan.from_json(plan.to_json()).additions == plan.additions


@pytest.mark.fast
@pytest.mark.parametrize(
    ("config", "separate"),
    [
        (QuantConfig(exclude=("nn.silu",)), {"a"}),
        (QuantConfig(exclude=("function",)), {"d", "gate"}),  # floats read the gate
        (QuantConfig(requantize="gemmlowp"), set(NAMES)),
    ],
    ids=["by operator", "by kind", "fixed point"],
)
def test_functions_that_stay_apart(config: QuantConfig, separate: set[str]):
    mod = network()
    assert set(absorbed(mod, annotate(mod, config))) == set(NAMES) - separate


@pytest.mark.parametrize("preset", ["int8", "int8-asymmetric"])
def test_tanh(preset: str):
    net = NetworkWriter()
    a = net.emit("a", relax.op.tanh(net.conv("a/bias", net.x, 20, 3, padding=1)))
    mod = net.module(net.conv("y", a, 6, 1))
    assert absorbed(mod, annotate(mod, QuantConfig(preset=preset))) == {"a": "steep_sigmoid"}
    quantized = QuantizedNetwork.make(mod, preset=preset)
    assert_equals_oracle(quantized, named_target("native"), fewest=2)
    assert np.unique(quantized.expected["a:q"]).size > 50


@pytest.mark.fast
def test_a_layer_is_excluded_with_its_function():
    plan = annotate(network(), QuantConfig(exclude=("a",)))
    (layer,) = (layer for layer in plan.layers if layer.name == "a")
    assert (layer.kind, layer.cause) == ("conv2d", "excluded")


@pytest.mark.fast
def test_a_function_that_no_integer_layer_reads_is_of_floats():
    net = NetworkWriter()
    mod = net.module(net.emit("y", relax.op.sigmoid(net.conv("c", net.x, 8, 3))))
    reasons = {layer.name: layer.reason for layer in annotate(mod, QuantConfig()).layers}
    assert reasons == {"c": None, "y": "no integer operator reads its result"}


@pytest.mark.fast
@pytest.mark.parametrize(
    ("config", "names"),
    [
        (QuantConfig(), {"y"}),
        (QuantConfig(tools=Tools(functions="quick")), set()),
    ],
    ids=["exact", "quick"],
)
def test_narrow_layers_of_large_images(config: QuantConfig, names: set[str]):
    net = NetworkWriter((1, 3, 32, 32))
    y = net.emit("y", nn.silu(net.conv("c", net.x, 8, 3)))
    mod = net.module(net.conv("z", y, 4, 1))
    assert set(absorbed(mod, annotate(mod, config))) == names


@pytest.mark.fast
def test_networks_of_attention_have_functions_in_all_layers():
    net = NetworkWriter((1, 3, 32, 32))
    y = net.emit("y", nn.silu(net.conv("c", net.x, 8, 3)))
    tokens = net.emit("tokens", relax.op.reshape(y, (1, 1, 8, -1)))
    keys = net.emit("keys", relax.op.permute_dims(tokens, (0, 1, 3, 2)))
    shares = net.emit("shares", nn.softmax(net.emit("scores", relax.op.matmul(tokens, keys))))
    mod = net.module(net.emit("z", relax.op.matmul(shares, tokens)))
    config = QuantConfig(tools=Tools(functions="quick"))
    assert set(absorbed(mod, annotate(mod, config))) == {"y"}


@pytest.mark.fast
def test_numpy_simulates_the_integers():
    assert_simulated(network())


@pytest.mark.fast
def test_an_adopted_file_keeps_them():
    quantized = QuantizedNetwork.make(network())
    again = adopted_again(quantized, NAMES)
    assert set(absorbed(again.mod, again.plan)) == set(NAMES)
