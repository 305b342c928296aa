"""JoinResponse: a residual product with a quotient is one product."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.normalize.join_response import JoinResponse
from relay_int8.graph.dataflow import calls, operator, shape
from tests.onnx_models import assert_close, run_relax
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast

DIMS = {
    "image": ((2, 6, 5, 7), (2, 3)),
    "rows": ((2, 5, 7, 6), (1, 2)),
    "tokens": ((2, 9, 6), (1,)),
}


def response(dims: tuple[int, ...], axes: tuple[int, ...], order: str = "gbx") -> tvm.IRModule:
    """Return ConvNeXtV2's norm of responses; ``order`` has g for gamma, b for beta, x residual."""
    net = NetworkWriter(dims)
    channel = ({1, 2, 3} - set(axes) - ({3} if len(dims) == 3 else set())).pop()
    factors = [dims[channel] if axis == channel else 1 for axis in range(len(dims))]
    x = net.emit("x0", relax.op.tanh(net.x))
    square = net.emit("square", relax.op.multiply(x, x))
    total = net.emit("total", relax.op.sum(square, list(axes), keepdims=True))
    norm = net.emit("norm", relax.op.sqrt(total))
    mean = net.emit("mean", relax.op.mean(norm, [channel], keepdims=True))
    mean = net.emit("positive", relax.op.add(mean, relax.const(1e-6, "float32")))
    q = net.emit("q", relax.op.divide(norm, mean))
    y = net.emit("product", relax.op.multiply(*((q, x) if "<" in order else (x, q))))
    if "g" in order:
        y = net.emit("scaled", relax.op.multiply(net.constant(*factors), y))
    if "b" in order:
        y = net.emit("shifted", relax.op.add(y, net.constant(*factors)))
    return net.module(net.emit("y", relax.op.add(x, y) if order[-1] == "x" else relax.op.add(y, x)))


@pytest.mark.parametrize("order", ["gbx", "gb", "<gx", "bx", "x"])
@pytest.mark.parametrize("name", DIMS)
def test_a_norm_of_responses_is_one_product(name, order):
    dims, axes = DIMS[name]
    mod = response(dims, axes, order)
    original = mod.clone()
    joined = JoinResponse()(mod)
    tvm.ir.assert_structural_equal(mod, original)
    x = np.random.default_rng(0).normal(size=dims).astype("float32")
    assert_close(run_relax(joined, x), run_relax(mod, x))
    whole = [operator(value) for _, value in calls(joined["main"]) if shape(value) == dims]
    assert whole == ["tanh", "multiply", "multiply", *(["add"] if "b" in order else [])]
    tvm.ir.assert_structural_equal(JoinResponse()(joined), joined)


def gated(kind: str) -> tvm.IRModule:
    """Return what is near to it and stays."""
    net = NetworkWriter((2, 6, 5, 7))
    mean = net.emit("mean", relax.op.mean(net.x, [2, 3], keepdims=True))
    if kind == "a gate":
        q = net.emit("gate", relax.op.sigmoid(mean))
    elif kind == "a quotient by a constant":
        q = net.emit("half", relax.op.divide(mean, relax.const(2.0, "float32")))
    else:
        total = net.emit("total", relax.op.sum(mean, [1], keepdims=True))
        dividend = net.x if kind == "as large as x" else mean
        q = net.emit("q", relax.op.divide(dividend, total))
    product = net.emit("product", relax.op.multiply(net.x, q))
    if kind == "a factor of pixels":
        product = net.emit("scaled", relax.op.multiply(product, net.constant(1, 6, 5, 7)))
    residual = net.emit("other", relax.op.tanh(net.x)) if kind == "another residual" else net.x
    outputs = [net.emit("y", relax.op.add(residual, product))]
    return net.module(*outputs, *([product] if kind == "read too" else []))


@pytest.mark.parametrize(
    "kind",
    [
        "a gate",
        "a quotient by a constant",
        "as large as x",
        "a factor of pixels",
        "another residual",
        "read too",
    ],
)
def test_what_is_near_to_it_stays(expect_rewrite, kind):
    mod = gated(kind)
    expect_rewrite(JoinResponse(), mod, mod)
