"""LowerFloat: what stays float is one kernel of ours for each layer, where there is one."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.lower.lower_float import LowerFloat
from relay_int8.graph import dataflow
from relay_int8.graph.spec_calls import operands, spec_of
from schedules.reference.kernels import reference
from tests.onnx_models import assert_close, run_relax
from tests.small_networks import NetworkWriter, nn

pytestmark = pytest.mark.fast


def lowered(mod: tvm.IRModule) -> dict[str, relax.Expr]:
    original = mod.clone()
    after = LowerFloat()(mod)
    tvm.ir.assert_structural_equal(mod, original)
    relax.analysis.well_formed(after)
    return {str(var.name): value for var, value in dataflow.calls(after["main"])}


def test_convolution_bias_and_activation_are_one_kernel():
    net = NetworkWriter((1, 4, 6, 5))
    mod = net.module(net.relu("y", net.conv("c", net.x, 6, 3, padding=1, groups=2)))
    calls = lowered(mod)
    assert list(calls) == ["y"]
    spec = spec_of(calls["y"])
    assert (spec.kind, spec.x, spec.y, spec.groups) == ("conv2d", "float32", "float32", 2)
    x = np.random.default_rng(0).normal(size=(1, 4, 6, 5)).astype("float32")
    y = reference(spec, {"x": x}, operands(calls["y"], spec)[1])
    assert_close([y], run_relax(mod, x))


def test_a_product_of_several_rows_is_one_of_two_axes_between_reshapes():
    net = NetworkWriter((2, 3, 8))
    calls = lowered(net.module(net.emit("y", relax.op.matmul(net.x, net.constant(8, 5)))))
    kinds = [getattr(spec_of(value), "kind", dataflow.operator(value)) for value in calls.values()]
    assert kinds == ["reshape", "dense", "reshape"]
    assert next(iter(calls)) == "y/rows" and dataflow.shape(calls["y/rows"]) == (6, 8)
    assert dataflow.shape(list(calls.values())[-1]) == (2, 3, 5)


def test_what_has_no_kernel_stays(expect_rewrite):
    net = NetworkWriter((1, 4, 6, 5))
    s = net.emit("s", relax.op.erf(net.x))
    mod = net.module(net.emit("y", relax.op.cumsum(s, axis=1)))
    expect_rewrite(LowerFloat(), mod, mod)


def test_a_layer_that_is_refused_stays(expect_rewrite):
    net = NetworkWriter((1, 4, 1, 1))
    mod = net.module(net.emit("y", nn.conv2d(net.x, net.x)))  # weights that are no constant
    expect_rewrite(LowerFloat(), mod, mod)
