"""Layers that calibrated ranges rule out: they stay in float, with a reason."""

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper

import relay_int8
from relay_int8.api.model import Model
from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.compiler.target import resolve_target
from relay_int8.frontend.onnx import import_onnx
from tests.onnx_models import model, run_onnx

RNG = np.random.default_rng(0)
node = helper.make_node
WEIGHTS = {
    "w": RNG.normal(size=(4, 4, 1, 1)).astype("float32"),
    "far": np.full(4, 20, "float32"),
    "two": np.array(2, "float32"),
}
FUNCTIONS = {
    "quotient of a number": [node("Div", ["two", "r"], ["f"])],
    "log": [node("Log", ["r"], ["f"])],
    "reciprocal": [node("Reciprocal", ["r"], ["f"])],
    "square root": [
        node("Mul", ["r", "r"], ["s"]),
        node("Sub", ["s", "two"], ["d"]),
        node("Sqrt", ["d"], ["f"]),
    ],
}


def network(function: list[onnx.NodeProto]) -> onnx.ModelProto:
    """Return a function, between convolutions, of values far from zero in a range that has it."""
    nodes = [
        node("Conv", ["x", "w", "far"], ["c"]),
        node("Relu", ["c"], ["r"]),
        *function,
        node("MaxPool", ["f"], ["p"], kernel_shape=[2, 2]),
        node("Conv", ["p", "w"], ["y"]),
    ]
    used = {name for each in nodes for name in each.input}
    weights = {name: array for name, array in WEIGHTS.items() if name in used}
    return model(nodes, {"x": (1, 4, 6, 6)}, {"y": None}, weights)


@pytest.mark.fast
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_that_is_not_finite_somewhere_stays_in_float(name: str):
    proto = network(FUNCTIONS[name])
    images = [{"x": RNG.normal(size=(1, 4, 6, 6)).astype("float32")} for _ in range(3)]
    made = relay_int8.quantize(Model(module=import_onnx(proto)), images)
    reasons = {layer.name: layer.reason or "" for layer in made.network.plan.layers}
    assert "a table needs finite values" in reasons["f"]
    assert reasons["r"] == reasons["y"] == ""
    again = relay_int8.quantize(made.model, made.table)
    assert again.digest == made.digest


def test_what_follows_it_is_right():
    proto = network(FUNCTIONS["log"])
    images = [{"x": RNG.normal(size=(1, 4, 6, 6)).astype("float32")} for _ in range(3)]
    made = relay_int8.quantize(Model(module=import_onnx(proto)), images)
    built = virtual_machine(compile_module(made.network.mod, resolve_target("x86", 1)))
    x = images[0]["x"]
    found, (wanted,) = built["main"](tvm.runtime.tensor(x)).numpy(), run_onnx(proto, x)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=0.02 * np.abs(wanted).max())
