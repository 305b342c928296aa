"""Maxima and minima with constants: integers between integers, those of the oracle on every target."""

from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper
from tvm import relax

from relay_int8.compiler.pipeline import normalize
from relay_int8.export.qdq import export_qdq
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.groups import find_groups
from relay_int8.quantization.adopt import adopt
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.simulation import Simulation
from relay_int8.quantization.signs import non_negative
from schedules.rounding import ROUNDINGS, Requantize
from schedules.targets import named_target
from tests import reference
from tests.onnx_models import assert_close, model, run_onnx
from tests.quantized_networks import QuantizedNetwork, assert_equals_oracle
from tests.small_networks import NetworkWriter, any_params, bounds
from tests.x86_targets import X86

Join = Callable[[relax.Expr, relax.Expr], relax.Expr]
JOINS = [
    pytest.param(relax.op.maximum, id="maximum"),
    pytest.param(relax.op.minimum, id="minimum"),
]
NAMES = ("b", "d", "e", "f", "g", "j")
PRESETS = ("int8", "int8-symmetric", "int8-asymmetric")
each_join = pytest.mark.parametrize("join", JOINS)
RNG = np.random.default_rng(0)


def quantized(join: Join, preset: str = "int8", requantize: Requantize = "float"):
    mod = normalize()(bounds(join))
    return QuantizedNetwork.make(mod, any_params, preset=preset, requantize=requantize)


@pytest.mark.parametrize("target", X86)
@each_join
def test_equals_oracle(join: Join, target: str):
    network = quantized(join)
    assert_equals_oracle(network, named_target(target))
    for name in NAMES:
        assert np.unique(network.expected[f"{name}:q"]).size > 10, name


@pytest.mark.parametrize(
    ("join", "preset"),
    [(relax.op.maximum, "int8-symmetric"), (relax.op.minimum, "int8-asymmetric")],
)
def test_any_signs(join: Join, preset: str):
    assert_equals_oracle(quantized(join, preset), named_target("native"))


def affine_blocks():
    """ReLU, ReLU6 and what is added to them, behind convolutions and a product (D-FINE's blocks)."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/conv", net.x, 12, 3, padding=1))
    a = net.emit("a/more", relax.op.add(a, relax.const(0.7)))
    b = net.emit("b", relax.op.clip(net.conv("b/conv", a, 12, 3, groups=12, padding=1), 0, 6))
    b = net.emit("b/less", relax.op.subtract(b, relax.const(0.4)))
    c = net.relu("c", net.conv("c/conv", b, 12, 3, padding=1))
    c = net.emit("c/less", relax.op.add(c, relax.const(-0.3)))
    flat = net.emit("flat", relax.op.reshape(c, (1, -1)))
    d = net.relu("d", net.emit("d/rows", relax.op.matmul(flat, net.constant(12 * 12 * 11, 8))))
    d = net.emit("d/more", relax.op.add(d, relax.const(0.2)))
    return normalize()(net.module(net.emit("y", relax.op.matmul(d, net.constant(8, 5)))))


@pytest.mark.parametrize("preset", PRESETS)
def test_affine_blocks_are_layers_with_bounds(preset: str):
    network = QuantizedNetwork.make(affine_blocks(), any_params, preset=preset)
    layers = [layer for layer in network.plan.layers if layer.kind != "reshape"]
    assert [layer.kind for layer in layers] == ["conv2d"] * 3 + ["dense"] * 2
    assert_equals_oracle(network, named_target("native"))


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_fixed_point(rounding: Requantize):
    network = quantized(relax.op.minimum, "int8-asymmetric", rounding)
    assert_equals_oracle(network, named_target("native"))


@pytest.mark.fast
@each_join
def test_no_float_island(join: Join):
    plan = annotate(normalize()(bounds(join)), QuantConfig())
    assert {layer.name: layer.reason for layer in plan.layers if layer.reason} == {}
    assert {layer.name for layer in plan.layers if layer.kind in ("max", "min")} == set(NAMES)


@pytest.mark.fast
@each_join
def test_integers_of_an_exported_file_are_the_same(join: Join):
    network = quantized(join)
    again = adopt(import_onnx(export_qdq(network.mod)))
    reasons = {layer.name: layer.reason for layer in again.plan.layers if layer.name in NAMES}
    assert reasons == dict.fromkeys(NAMES)
    found = reference.run(again.mod, network.inputs)
    for name in NAMES:
        np.testing.assert_array_equal(found[f"{name}:q"], network.expected[f"{name}:q"])


@pytest.mark.fast
@each_join
def test_numpy_simulates_the_integers(join: Join):
    mod = normalize()(bounds(join))
    plan = annotate(mod, QuantConfig(preset="int8"))
    network = quantized(join)
    simulation = Simulation(plan=plan, params=any_params(plan))
    (found,) = NumpyNetwork(mod, plan.additions).run(network.inputs, simulation).values()
    wanted = network.expected["k"]
    assert np.abs(found - wanted).mean() < 0.01 * np.abs(wanted).max()


@pytest.mark.fast
@pytest.mark.parametrize("k", [RNG.normal(size=(1, 4, 1, 1)), RNG.normal(size=(4, 5, 5))])
@pytest.mark.parametrize("order", ["ak", "ka"])
@pytest.mark.parametrize("op", ["Max", "Min"])
def test_a_file_of_onnx(op: str, order: str, k: np.ndarray):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node(op, list(order), ["d"]),
        helper.make_node("Conv", ["d", "w"], ["y"]),
    ]
    weights = {"w": RNG.normal(size=(4, 4, 1, 1)).astype("float32"), "k": k.astype("float32")}
    proto = model(nodes, {"x": (1, 4, 5, 5)}, {"y": None}, weights)
    mod = normalize()(import_onnx(proto))
    network = QuantizedNetwork.make(mod)
    assert [layer.reason for layer in network.plan.layers] == [None] * 3
    (expected,) = run_onnx(proto, network.inputs["x"])
    assert_close([NumpyNetwork(mod).run(network.inputs)["y"]], [expected])
    assert np.corrcoef(network.expected["y"].ravel(), expected.ravel())[0, 1] > 0.95


def refused(join: Join, constant: relax.Expr, pooled: bool = False) -> str | None:
    net = NetworkWriter()
    a = net.conv("a", net.x, 4, 1)
    if pooled:
        a = net.emit("mean", relax.op.nn.avg_pool2d(a, pool_size=(12, 11)))
    y = net.emit("y", join(a, constant))
    plan = annotate(net.module(net.conv("z", y, 4, 1)), QuantConfig())
    return next(layer.reason for layer in plan.layers if layer.name == "y")


@pytest.mark.fast
@each_join
def test_refusals(join: Join):
    for value in (np.inf, -np.inf, np.nan):
        limits = np.array([1, 2, value, 3], "float32").reshape(4, 1, 1)
        reason = refused(join, relax.const(limits))
        assert reason == f"its constant holds {value}, which no integer stands for"
    image = relax.const(np.ones((1, 4, 12, 11), "float32"))
    reason = refused(join, image, pooled=True)
    assert reason == "a constant of (1, 4, 12, 11) broadcasts its input of (1, 4, 1, 1)"
    assert refused(join, image) is None


@pytest.mark.fast
@pytest.mark.parametrize("relu", [False, True])
def test_a_minimum_is_never_negative_where_both_are(relu: bool):
    net = NetworkWriter()
    limits = relax.const(np.array([0.5, 0, 1, 2], "float32").reshape(4, 1, 1))
    a = net.conv("a", net.x, 4, 1)
    y = net.emit("y", relax.op.minimum(net.relu("b", a) if relu else a, limits))
    plan = annotate(net.module(net.conv("z", y, 4, 1)), QuantConfig())
    assert (plan.tensors["y"].scheme == "u8") == relu


@pytest.mark.fast
@pytest.mark.parametrize("low", [0.0, -0.1])
def test_a_maximum_with_what_is_never_negative_is_never_negative(low: float):
    net = NetworkWriter()
    limits = relax.const(np.array([0.5, low, 1, 2], "float32").reshape(4, 1, 1))
    y = net.emit("y", relax.op.maximum(limits, net.conv("a", net.x, 4, 1)))
    mod = net.module(net.conv("z", y, 4, 1))
    known = {str(var.name) for var in non_negative(find_groups(mod["main"]))}
    assert ("y" in known) == (low >= 0)
    assert annotate(mod, QuantConfig()).tensors["y"].scheme == ("u8" if low >= 0 else "asymmetric")
