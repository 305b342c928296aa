"""CorrectBias: integer layers get the bias of relay_int8.numerics.bias_correction."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.qdq.correct_bias import CorrectBias
from relay_int8.errors import CalibrationError
from relay_int8.graph import dataflow
from relay_int8.numerics.bias_correction import corrected_bias, tap_shares
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from tests.small_networks import NetworkWriter, any_params, nn

pytestmark = pytest.mark.fast
RNG = np.random.default_rng(0)
ONE = np.ones((1, 1))


def corrected(mod, means):
    """Return the corrected module, and the scale of every tensor."""
    plan = annotate(mod, QuantConfig())
    params = any_params(plan)
    original = mod.clone()
    after = CorrectBias(plan, params, means)(mod)
    tvm.ir.assert_structural_equal(mod, original)
    return after, {name: params[item.like].scale for name, item in plan.tensors.items()}


def found(mod) -> dict[str, relax.Expr]:
    return {str(var.name): value for var, value in dataflow.calls(mod["main"])}


def conv_network(bias: bool):
    net = NetworkWriter((1, 4, 5, 6))
    a = net.relu("a", net.x)
    attrs = dict(padding=1, strides=2, groups=2)
    if bias:
        return net.module(net.conv("y", a, 6, 3, **attrs))
    w = net.constant(6, 2, 3, 3, scale=0.3)
    return net.module(net.emit("y", nn.conv2d(a, w, **attrs)))


@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_adds_the_corrected_bias(bias):
    mod = conv_network(bias)
    before = found(mod)
    conv = before["y/conv" if bias else "y"]
    w = dataflow.constant(conv.args[1])
    b = dataflow.constant(before["y"].args[1]).reshape(-1) if bias else np.zeros(6, "float32")
    means = RNG.normal(size=4).astype("float32")
    after, scales = corrected(mod, {"a": means})
    calls = found(after)
    product = "y/conv" if bias else "y:product"
    assert list(calls) == ["a", product, "y"]  # the result keeps its name
    assert calls["y"].args[0].name == product
    tvm.ir.assert_structural_equal(calls[product].args[1], conv.args[1])
    share = tap_shares((5, 6), (3, 3), (3, 3), strides=(2, 2), dilation=(1, 1), padding=(1, 1))
    wanted = corrected_bias(w, b, scales["a"], means, share, 2)
    np.testing.assert_array_equal(dataflow.constant(calls["y"].args[1]), wanted.reshape(6, 1, 1))
    assert (wanted != b).any()


def test_a_product_adds_the_corrected_bias():
    net = NetworkWriter((1, 7))
    a = net.relu("a", net.x)
    w = net.constant(7, 3)
    mod = net.module(net.emit("y", relax.op.matmul(a, w)))
    means = RNG.normal(size=7).astype("float32")
    after, scales = corrected(mod, {"a": means})
    rows = w.value.numpy().T[:, :, None, None]
    wanted = corrected_bias(rows, np.zeros(3, "float32"), scales["a"], means, ONE, 1)
    np.testing.assert_array_equal(dataflow.constant(found(after)["y"].args[1]), wanted)


def test_layers_that_stay_float_keep_their_bias():
    mod = conv_network(True)
    plan = annotate(mod, QuantConfig(exclude=("y",)))
    assert not any(layer.integer for layer in plan.layers if layer.macs)
    after = CorrectBias(plan, any_params(plan), {})(mod)
    tvm.ir.assert_structural_equal(after, mod)


@pytest.mark.parametrize("means", [{}, {"a": np.zeros(3, "float32")}])
def test_missing_means_are_refused(means):
    with pytest.raises(CalibrationError, match="needs the means of the 4 channels of 'a'"):
        corrected(conv_network(True), means)


def test_exact_weights_keep_the_bias():
    """Weights that are multiples of their scale have no error to make up for."""
    net = NetworkWriter((1, 2, 3, 3))
    w = np.array([127, -5], "float32").reshape(1, 2, 1, 1)
    c = net.emit("c", nn.conv2d(net.relu("a", net.x), relax.const(w)))
    mod = net.module(
        net.emit("y", relax.op.add(c, relax.const(np.full((1, 1, 1), 0.5, "float32"))))
    )
    after, _ = corrected(mod, {"a": np.array([9, 50], "float32")})
    tvm.ir.assert_structural_equal(after, mod)
