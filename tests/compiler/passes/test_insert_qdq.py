"""InsertQdq: tensors of the plan and weights of integer layers are behind Q/DQ pairs."""

import json

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.graph import dataflow
from relay_int8.graph.attributes import QRANGE
from relay_int8.numerics import qparams
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from tests.small_networks import NetworkWriter, any_params

pytestmark = pytest.mark.fast


def inserted(mod: tvm.IRModule, **config):
    plan = annotate(mod, QuantConfig(**config))
    params = any_params(plan)
    original = mod.clone()
    after = InsertQdq(plan, params)(mod)
    tvm.ir.assert_structural_equal(mod, original)
    relax.analysis.well_formed(after)
    return after, {name: params[item.like] for name, item in plan.tensors.items()}


def network() -> tvm.IRModule:
    net = NetworkWriter((1, 3, 5, 5))
    a = net.relu("a", net.conv("a/bias", net.x, 4, 3))
    return net.module(net.conv("y", a, 2, 1))


def read(call: relax.Call) -> list[str]:
    return [arg.name for arg in dataflow.arguments(call) if isinstance(arg, relax.Var)]


def test_every_tensor_of_the_plan_has_a_pair():
    after, params = inserted(network(), preset="int8-symmetric")
    calls = {str(var.name): value for var, value in dataflow.calls(after["main"])}
    assert list(calls) == [
        *(
            "x:q",
            "x:dq",
            "a/bias/conv:w:q",
            "a/bias/conv:w:dq",
            "a/bias/conv",
            "a/bias",
            "a",
            "a:q",
            "a:dq",
        ),
        *("y/conv:w:q", "y/conv:w:dq", "y/conv", "y"),
    ]
    assert read(calls["a/bias/conv"]) == ["x:dq", "a/bias/conv:w:dq"]
    assert read(calls["a"]) == ["a/bias"]  # inside of a layer nothing is quantized
    assert [var.name for var in dataflow.results(after["main"])] == ["y"]
    for name, wanted in params.items():
        for pair in (calls[f"{name}:q"], calls[f"{name}:dq"]):
            scale, zero = map(dataflow.constant, pair.args[1:])
            assert (scale, zero) == (wanted.scale, wanted.zero_point)
            assert (scale.dtype, zero.dtype) == (np.float32, wanted.dtype)
    ranges = json.loads(str(after["main"].attrs[QRANGE]))
    narrow = ("x:q", "a:q", "a/bias/conv:w:q", "y/conv:w:q")
    assert ranges == {name: [-127, 127] for name in narrow}


def test_weights_have_a_scale_for_each_output_channel():
    mod = network()
    before = {str(var.name): value for var, value in dataflow.calls(mod["main"])}
    after, params = inserted(mod)
    calls = {str(var.name): value for var, value in dataflow.calls(after["main"])}
    pair = calls["y/conv:w:q"]
    w = dataflow.constant(before["y/conv"].args[1])
    bias = dataflow.constant(before["y"].args[1]).reshape(-1)
    wanted = qparams.weight_scales(w, bias, params["a"].scale)
    np.testing.assert_array_equal(dataflow.constant(pair.args[1]), wanted)
    np.testing.assert_array_equal(dataflow.constant(pair.args[0]), w)
    assert pair.attrs.axis == 0 and not dataflow.constant(pair.args[2]).any()


def test_layers_that_stay_float_read_what_was_computed():
    after, _ = inserted(network(), exclude=("a",))
    calls = {str(var.name): value for var, value in dataflow.calls(after["main"])}
    assert read(calls["a/bias/conv"]) == ["x"] and "a/bias/conv:w:q" not in calls
    assert read(calls["y/conv"]) == ["a:dq", "y/conv:w:dq"]


@pytest.mark.parametrize(("exclude", "given"), [((), "a:dq"), (("a",), "a")])
def test_a_caller_gets_what_the_integers_stand_for_where_there_are_any(exclude, given):
    net = NetworkWriter((1, 3, 5, 5))
    a = net.relu("a", net.conv("a/bias", net.x, 4, 3))
    after, params = inserted(net.module(a, net.conv("y", a, 2, 1)), exclude=exclude)
    assert "a" in params
    assert [var.name for var in dataflow.results(after["main"])] == [given, "y"]


def test_a_network_without_integer_layers_stays():
    mod = network()
    after, params = inserted(mod, exclude=("a", "y"))
    assert not params
    assert dict(dataflow.attributes(after["main"])) == {QRANGE: "{}"}
    names = [str(var.name) for var, _ in dataflow.calls(mod["main"])]
    assert [str(var.name) for var, _ in dataflow.calls(after["main"])] == names
