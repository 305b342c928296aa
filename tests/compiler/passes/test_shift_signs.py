"""ShiftSigns: int8 tensors are uint8 ones, 128 higher. Whole networks: test_realize.py."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.lower.lower_float import LowerFloat
from relay_int8.compiler.passes.lower.realize import Realize
from relay_int8.compiler.passes.lower.shift_signs import ShiftSigns
from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.graph import dataflow
from relay_int8.graph.dataflow import FunctionWriter
from relay_int8.graph.spec_calls import kernel_call, operands, spec_of
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from schedules.spec import Rescale
from tests.kernel_interpreter import interpret
from tests.small_networks import NETWORKS, any_params

pytestmark = pytest.mark.fast


def rescaled(z: tuple[int, int], x: str, y: str) -> tvm.IRModule:
    """Return one kernel between an input and a result."""
    params = {
        "m": np.array([0.5], "float32"),
        "z": np.array(z, "int32"),
        "clamp": np.array([-100, 100], "float32"),
    }
    tensor = relax.Var("x", relax.TensorType((2, 3), x))
    writer = FunctionWriter()
    call = kernel_call(Rescale(dims=(2, 3), x=x, y=y), [tensor], params)
    return writer.finish([tensor], [writer.emit("y", call)])


def test_what_enters_and_leaves_as_int8_is_moved_there_and_back():
    mod = rescaled((-3, 5), "int8", "int8")
    original = mod.clone()
    after = ShiftSigns()(mod)
    tvm.ir.assert_structural_equal(mod, original)
    calls = {str(var.name): value for var, value in dataflow.calls(after["main"])}
    types = {name: [spec_of(call).x, spec_of(call).y] for name, call in calls.items()}
    assert types == {
        "x:unsigned": ["int8", "uint8"],
        "y": ["uint8", "uint8"],
        "y:signed": ["uint8", "int8"],
    }
    _, params = operands(calls["y"], spec_of(calls["y"]))
    assert params["z"].tolist() == [125, 133]
    assert params["clamp"].tolist() == [-100, 100]  # relative to the zero point
    x = np.array([[-128, -3, 0], [1, 126, 127]], "int8")
    np.testing.assert_array_equal(
        interpret(after, {"x": x})["y:signed"], interpret(mod, {"x": x})["y"]
    )


def test_networks_without_int8_stay(expect_rewrite):
    mod = rescaled((3, 5), "uint8", "uint8")
    expect_rewrite(ShiftSigns(), mod, mod)


def test_operators_without_a_spec_read_int8():
    x = relax.Var("x", relax.TensorType((2, 3), "int8"))
    writer = FunctionWriter()
    mod = writer.finish([x], [writer.emit("y", relax.op.permute_dims(x, [1, 0]))])
    ((_, value),) = dataflow.calls(ShiftSigns()(mod)["main"])
    assert dataflow.operator(value) == "permute_dims" and dataflow.dtype(value.args[0]) == "int8"


@pytest.mark.parametrize("name", NETWORKS)
def test_input_is_left_alone(name):
    mod = NETWORKS[name]()
    plan = annotate(mod, QuantConfig(preset="int8-symmetric"))
    realized = LowerFloat()(Realize()(InsertQdq(plan, any_params(plan))(mod)))
    original = realized.clone()
    ShiftSigns()(realized)
    tvm.ir.assert_structural_equal(realized, original)
