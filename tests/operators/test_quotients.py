"""Quotients of two activations: integers between integers, those of the oracle on every target."""

import numpy as np
import onnx
import pytest
from onnx import helper
from tvm import relax

from relay_int8.compiler.passes.lower.realize import realized_groups
from relay_int8.compiler.pipeline import normalize
from relay_int8.export.qdq import export_qdq
from relay_int8.frontend.onnx import import_onnx
from relay_int8.quantization.adopt import adopt
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.simulation import Simulation
from schedules.rounding import ROUNDINGS, Rounding
from schedules.targets import named_target
from tests import reference
from tests.onnx_models import assert_close, model, run_onnx
from tests.quantized_networks import QuantizedNetwork, assert_equals_oracle
from tests.small_networks import NetworkWriter, any_params, quotients
from tests.x86_targets import X86

NAMES = ("c", "e", "f", "g")
RNG = np.random.default_rng(0)


def quantized() -> QuantizedNetwork:
    return QuantizedNetwork.make(normalize()(quotients()), any_params)


def about_one() -> onnx.ModelProto:
    """Return means by what they are means of, all around 2: the first operand is broadcast."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "p", "two"], ["a"]),
        node("GlobalAveragePool", ["a"], ["m"]),
        node("Conv", ["x", "q", "two"], ["b"]),
        node("Div", ["m", "b"], ["d"]),
        node("Conv", ["d", "w"], ["y"]),
    ]
    weights = {name: RNG.normal(size=(4, 4, 1, 1)).astype("float32") / 9 for name in "pqw"}
    weights["two"] = np.full(4, 2, "float32")
    return model(nodes, {"x": (1, 4, 5, 5)}, {"y": None}, weights)


@pytest.mark.parametrize("target", X86)
def test_equals_oracle(target: str):
    network = quantized()
    assert_equals_oracle(network, named_target(target))
    for name in NAMES:
        assert np.unique(network.expected[f"{name}:q"]).size > 20, name


@pytest.mark.fast
def test_no_float_island():
    plan = annotate(normalize()(quotients()), QuantConfig())
    assert {layer.name: layer.reason for layer in plan.layers if layer.reason} == {}
    assert {layer.name for layer in plan.layers if layer.kind == "div"} == set(NAMES)


@pytest.mark.fast
def test_integers_of_an_exported_file_are_the_same():
    network = quantized()
    again = adopt(import_onnx(export_qdq(network.mod)))
    reasons = {layer.name: layer.reason for layer in again.plan.layers if layer.kind == "div"}
    assert reasons == dict.fromkeys(NAMES)
    found = reference.run(again.mod, network.inputs)
    for name in NAMES:
        np.testing.assert_array_equal(found[f"{name}:q"], network.expected[f"{name}:q"])


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_no_fixed_point_form(rounding: Rounding):
    mod = normalize()(import_onnx(about_one()))
    (layer,) = (x for x in annotate(mod, QuantConfig(requantize=rounding)).layers if x.name == "d")
    assert (layer.reason, layer.cause) == ("divide has no fixed-point form", "unsupported")
    network = QuantizedNetwork.make(mod, requantize=rounding)
    (reason,) = (why for group, why in realized_groups(network.mod) if group.kind == "div")
    assert reason == "divide has no fixed-point form"
    assert_equals_oracle(network, named_target("x86"), fewest=2)  # the image, and the quotient


@pytest.mark.fast
def test_numpy_simulates_the_integers():
    mod = normalize()(quotients())
    plan = annotate(mod, QuantConfig(preset="int8"))
    network = quantized()
    simulation = Simulation(plan=plan, params=any_params(plan))
    (found,) = NumpyNetwork(mod, plan.additions).run(network.inputs, simulation).values()
    # Where a divisor of one step becomes one of none, results are far from each other.
    assert np.isclose(found, network.expected["i"], atol=1e-3).mean() > 0.75


@pytest.mark.fast
def test_a_file_of_onnx_is_divided_in_its_order():
    proto = about_one()
    mod = normalize()(import_onnx(proto))
    assert [layer.reason for layer in annotate(mod, QuantConfig()).layers] == [None] * 5
    network = QuantizedNetwork.make(mod)
    (expected,) = run_onnx(proto, network.inputs["x"])
    assert_close([NumpyNetwork(mod).run(network.inputs)["y"]], [expected])
    assert np.corrcoef(network.expected["y"].ravel(), expected.ravel())[0, 1] > 0.95


@pytest.mark.fast
def test_a_constant_operand_stays_float():
    net = NetworkWriter()
    a = net.conv("a", net.x, 4, 1)
    y = net.emit("y", relax.op.divide(net.constant(1, 4, 12, 11), a))
    plan = annotate(net.module(net.conv("z", y, 4, 1)), QuantConfig())
    reasons = {layer.name: layer.reason for layer in plan.layers}
    assert reasons["y"] == "one of its operands is a constant"


@pytest.mark.fast
def test_zero_by_zero_is_zero_in_numpy():
    net = NetworkWriter()
    most = net.emit("most", relax.op.nn.max_pool2d(net.x, pool_size=(12, 11)))
    network = NumpyNetwork(net.module(net.emit("y", relax.op.divide(net.x, most))))
    x = np.zeros((1, 3, 12, 11), "float32")
    x[:, 1:] = (2, 4) + (0,) * 9
    found = network.run({"x": x})["y"]
    np.testing.assert_array_equal(found, [[[[0] * 11] * 12, *[[[0.5, 1] + [0] * 9] * 12] * 2]])
