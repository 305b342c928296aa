"""Operators that read constants where others read tensors: they compile, in float."""

import numpy as np
import pytest
import tvm
from onnx import helper

from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.compiler.pipeline import normalize
from relay_int8.compiler.target import resolve_target
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, constant
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from tests.onnx_models import model, run_onnx

RNG = np.random.default_rng(0)
node = helper.make_node
WEIGHTS = {
    "c": RNG.normal(size=(1, 4, 4, 4)).astype("float32"),
    "k8": RNG.normal(size=(1, 4, 8, 8)).astype("float32"),
    "w": RNG.normal(size=(4, 4, 3, 3)).astype("float32"),
    "m": RNG.normal(size=(8, 8)).astype("float32"),
    "slope": RNG.normal(size=(4, 1, 1)).astype("float32"),
    "twice": np.array([1, 1, 2, 2], "float32"),
    "widths": np.array([0, 0, 2, 2, 0, 0, 2, 2]),
}
CASES = {
    "Resize": (["c", "", "twice"], {"mode": "nearest", "nearest_mode": "floor"}),
    "Conv": (["k8", "w"], {"pads": [1, 1, 1, 1]}),
    "MaxPool": (["k8"], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    "PRelu": (["k8", "slope"], {}),
    "LeakyRelu": (["k8"], {}),
    "Erf": (["k8"], {}),
    "MatMul": (["k8", "m"], {}),
    "Pad": (["c", "widths"], {}),
}


@pytest.mark.parametrize("op", CASES)
def test_operator_of_constants(op):
    inputs, attributes = CASES[op]
    if op == "Resize":
        attributes = attributes | {"coordinate_transformation_mode": "asymmetric"}
    nodes = [
        node(op, inputs, ["k"], **attributes),
        node("Add", ["x", "k"], ["a"]),
        node("Conv", ["a", "w"], ["y"]),
    ]
    used = {name for each in nodes for name in each.input}
    weights = {name: array for name, array in WEIGHTS.items() if name in used}
    proto = model(nodes, {"x": (1, 4, 8, 8)}, {"y": None}, weights)
    mod = normalize()(import_onnx(proto))
    annotate(mod, QuantConfig())
    x = RNG.normal(size=(1, 4, 8, 8)).astype("float32")
    machine = virtual_machine(compile_module(mod, resolve_target("native", 1)))
    found = machine["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(found, run_onnx(proto, x)[0], rtol=0, atol=1e-4)


def test_part_of_a_constant_is_a_constant():
    nodes = [
        node("Slice", ["c", "first", "last", "axes", "steps"], ["s"]),
        node("Add", ["x", "s"], ["y"]),
    ]
    bounds = {"first": [3, 0], "last": [-9, 3], "axes": [2, 3], "steps": [-1, 2]}
    weights = {"c": WEIGHTS["c"]} | {name: np.array(v) for name, v in bounds.items()}
    proto = model(nodes, {"x": (1, 4, 4, 2)}, {"y": None}, weights)
    mod = normalize()(import_onnx(proto))
    ((_, value),) = calls(mod["main"])
    assert np.array_equal(constant(value.args[1]), WEIGHTS["c"][:, :, ::-1, :3:2])
