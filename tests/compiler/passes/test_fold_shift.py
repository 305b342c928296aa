"""FoldShift: a constant of channels in front of a layer is a part of its bias."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.normalize.fold_shift import FoldShift
from relay_int8.graph.dataflow import calls, operator
from tests.onnx_models import assert_close, run_relax
from tests.small_networks import NetworkWriter, nn

pytestmark = pytest.mark.fast


def convolution(kind: str = "") -> tvm.IRModule:
    """Return a convolution behind an addition."""
    net = NetworkWriter((2, 6, 5, 7))
    x = net.emit("x0", relax.op.tanh(net.x))
    if kind == "a bias":
        x = net.emit("layer", nn.conv2d(x, net.constant(6, 6, 1, 1)))
    shift = net.constant(1, 6, 5, 7) if kind == "a constant of pixels" else net.constant(6, 1, 1)
    if kind == "one number":
        shift = relax.const(0.75, "float32")
    how = {"subtracted": relax.op.subtract, "a factor": relax.op.multiply}.get(kind, relax.op.add)
    s = net.emit("s", how(x, shift))
    groups = 2 if kind == "groups" else 1
    size = 3 if kind in ("a window", "padded") else 1
    w = net.constant(4, 6 // groups, size, size)
    y = net.emit("y", nn.conv2d(s, w, groups=groups, padding=int(kind == "padded")))
    return net.module(y, *([s] if kind == "read too" else []))


@pytest.mark.parametrize("kind", ["", "subtracted", "one number", "groups", "a window"])
def test_a_shift_becomes_a_bias(kind):
    folded(convolution(kind), ["tanh", "nn.conv2d", "add"])


@pytest.mark.parametrize(
    "kind", ["padded", "a factor", "a constant of pixels", "read too", "a bias"]
)
def test_other_arithmetic_stays(expect_rewrite, kind):
    mod = convolution(kind)
    expect_rewrite(FoldShift(), mod, mod)


@pytest.mark.parametrize("dims", [(5, 6), (2, 5, 6)], ids=["rows", "tokens"])
def test_products_with_weights_too(dims):
    net = NetworkWriter(dims)
    s = net.emit("s", relax.op.add(net.x, net.constant(6)))
    folded(net.module(net.emit("y", relax.op.matmul(s, net.constant(6, 4)))), ["matmul", "add"])


def test_a_constant_of_tokens_stays(expect_rewrite):
    net = NetworkWriter((2, 5, 6))
    s = net.emit("s", relax.op.add(net.x, net.constant(5, 6)))
    mod = net.module(net.emit("y", relax.op.matmul(s, net.constant(6, 4))))
    expect_rewrite(FoldShift(), mod, mod)


def test_axis_1_of_an_image_is_not_what_a_product_sums(expect_rewrite):
    net = NetworkWriter((2, 6, 5, 6))
    s = net.emit("s", relax.op.add(net.x, net.constant(6, 1, 1)))
    mod = net.module(net.emit("y", relax.op.matmul(s, net.constant(6, 4))))
    expect_rewrite(FoldShift(), mod, mod)


def folded(mod: tvm.IRModule, expected: list[str]) -> None:
    original = mod.clone()
    after = FoldShift()(mod)
    tvm.ir.assert_structural_equal(mod, original)
    (x,) = (tuple(int(n) for n in param.ty.shape) for param in mod["main"].params)
    values = np.random.default_rng(0).normal(size=x).astype("float32")
    assert_close(run_relax(after, values), run_relax(mod, values))
    assert [operator(value) for _, value in calls(after["main"])] == expected
    tvm.ir.assert_structural_equal(FoldShift()(after), after)
