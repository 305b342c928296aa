"""ReplaceWeights: layers get other constants; all else stays."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.qdq.replace_weights import ReplaceWeights
from relay_int8.graph import dataflow
from tests.small_networks import NetworkWriter, nn

pytestmark = pytest.mark.fast
RNG = np.random.default_rng(0)


def network() -> tvm.IRModule:
    """Return a convolution with bias, one without, and a product."""
    net = NetworkWriter((1, 3, 4, 4))
    a = net.relu("a", net.conv("a/bias", net.x, 4, 1))
    b = net.emit("b", nn.conv2d(a, net.constant(5, 4, 1, 1)))
    flat = net.emit("flat", relax.op.reshape(b, (1, 80)))
    return net.module(net.emit("y", relax.op.matmul(flat, net.constant(80, 2))))


def found(mod: tvm.IRModule) -> dict[str, relax.Expr]:
    return {str(var.name): value for var, value in dataflow.calls(mod["main"])}


def changed(weights=None, biases=None) -> dict[str, relax.Expr]:
    mod = network()
    original = mod.clone()
    after = ReplaceWeights(weights or {}, biases or {})(mod)
    tvm.ir.assert_structural_equal(mod, original)
    relax.analysis.well_formed(after)
    return found(after)


def test_nothing_given_nothing_changed(expect_rewrite):
    mod = network()
    expect_rewrite(ReplaceWeights({"unknown": np.zeros(3)}, {}), mod, mod)


def test_weights_are_those_given_in_float32():
    before = found(network())
    w = RNG.normal(size=(4, 3, 1, 1))
    after = changed({"a": w})
    np.testing.assert_array_equal(
        dataflow.constant(after["a/bias/conv"].args[1]), w.astype("float32")
    )
    for name in ("a/bias", "b", "y"):
        tvm.ir.assert_structural_equal(after[name].args[1], before[name].args[1])


def test_a_bias_is_the_one_given():
    after = changed(biases={"a": np.array([1, 2, 3, 4.0])})
    np.testing.assert_array_equal(
        dataflow.constant(after["a/bias"].args[1]).reshape(-1), np.float32([1, 2, 3, 4])
    )
    assert list(after) == list(found(network()))


@pytest.mark.parametrize(("layer", "channels", "dims"), [("b", 5, (5, 1, 1)), ("y", 2, (2,))])
def test_a_layer_without_bias_gets_one_and_keeps_its_results_name(layer, channels, dims):
    bias = RNG.normal(size=channels).astype("float32")
    after = changed(biases={layer: bias})
    assert after[layer].args[0].name == f"{layer}:product"
    np.testing.assert_array_equal(dataflow.constant(after[layer].args[1]), bias.reshape(dims))
    assert dataflow.operator(after[f"{layer}:product"]) in ("nn.conv2d", "matmul")
