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


def test_a_gate_and_its_product_are_kernels():
    """Together they are one function, of which there are tables, but no kernel of floats."""
    net = NetworkWriter((1, 4, 6, 5))
    gate = net.emit("gate", relax.op.sigmoid(net.x))
    calls = lowered(net.module(net.emit("y", relax.op.multiply(net.x, gate))))
    assert [spec_of(value).kind for value in calls.values()] == ["sigmoid", "binary"]


def test_what_has_no_kernel_stays(expect_rewrite):
    net = NetworkWriter((1, 4, 6, 5))
    s = net.emit("s", relax.op.erf(net.x))
    mod = net.module(net.emit("y", relax.op.cumsum(s, axis=1)))
    expect_rewrite(LowerFloat(), mod, mod)


def test_a_layer_that_is_refused_stays(expect_rewrite):
    net = NetworkWriter((1, 4, 1, 1))
    mod = net.module(net.emit("y", nn.conv2d(net.x, net.x)))  # weights that are no constant
    expect_rewrite(LowerFloat(), mod, mod)


def norm_of(kind: str, x: relax.Var, net: NetworkWriter, **at: object) -> relax.Expr:
    channels = dataflow.shape(x)[1]
    if kind == "layer":
        return nn.layer_norm(x, net.constant(6, 5), net.constant(6, 5), [2, 3], **at)
    if kind == "rms":
        return nn.rms_norm(x, net.constant(5), [-1])
    beside = net.constant(channels), net.constant(channels)
    if kind == "group":
        return nn.group_norm(x, *beside, 2, 1, [2, 3], **at)
    return nn.instance_norm(x, *beside, 1, [2, 3], **at)


@pytest.mark.parametrize("at", [{}, {"center": False}, {"scale": False}])
@pytest.mark.parametrize("kind", ["layer", "rms", "group", "instance"])
def test_norms_are_kernels(kind, at):
    net = NetworkWriter((2, 4, 6, 5))
    mod = net.module(net.emit("y", norm_of(kind, net.x, net, **({} if kind == "rms" else at))))
    calls = lowered(mod)
    spec = spec_of(calls["y"])
    assert (spec.kind, spec.y, spec.centred) == ("normalize", "float32", kind != "rms")
    assert (spec.axes, spec.groups) == {
        "layer": (2, 0), "rms": (1, 0), "group": (0, 2), "instance": (0, 4)
    }[kind]  # fmt: skip
    x = np.random.default_rng(0).normal(size=(2, 4, 6, 5)).astype("float32")
    params = operands(calls["y"], spec)[1]
    y = reference(spec, {"x": x}, params)
    if at.get("center", True) and at.get("scale", True):
        np.testing.assert_allclose(y, run_relax(mod, x)[0], rtol=1e-5, atol=1e-5)
    else:
        neutral = {"beta": 0} if "center" in at else {"gamma": 1}
        for name, value in neutral.items():
            assert kind == "rms" or (params[name] == value).all()


@pytest.mark.parametrize("axis", [-1, 1])
def test_softmax_is_a_kernel(axis):
    net = NetworkWriter((2, 4, 6, 5))
    mod = net.module(net.emit("y", nn.softmax(net.x, axis)))
    spec = spec_of(lowered(mod)["y"])
    x = np.random.default_rng(0).normal(size=(2, 4, 6, 5)).astype("float32")
    y = reference(spec, {"x": x}, {})
    np.testing.assert_allclose(y, run_relax(mod, x)[0], rtol=1e-5, atol=1e-6)


REFUSED = {
    "layer norm of channels": lambda net: nn.layer_norm(
        net.x, net.constant(4), net.constant(4), [1]
    ),
    "rms norm of rows": lambda net: nn.rms_norm(net.x, net.constant(6), [2]),
    "instances of rows": lambda net: nn.instance_norm(
        net.x, net.constant(4), net.constant(4), 1, [3]
    ),
    "groups of the last axis": lambda net: nn.group_norm(
        net.x, net.constant(5), net.constant(5), 5, 3, [1, 2]
    ),
    "gamma that is computed": lambda net: nn.rms_norm(net.x, gamma(net), [-1]),
}


def gamma(net: NetworkWriter) -> relax.Var:
    return net.emit("gamma", relax.op.erf(net.emit("mean", relax.op.mean(net.x, [0, 1, 2]))))


@pytest.mark.parametrize("name", REFUSED)
def test_rows_of_other_axes_stay(name, expect_rewrite):
    net = NetworkWriter((2, 4, 6, 5))
    mod = net.module(net.emit("y", REFUSED[name](net)))
    expect_rewrite(LowerFloat(), mod, mod)
