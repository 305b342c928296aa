"""LowerBatchNorm: a batch norm behind no convolution is a depthwise 1x1 convolution."""

import numpy as np
import pytest
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.normalize.lower_batch_norm import LowerBatchNorm
from relay_int8.graph import dataflow
from tests.onnx_models import assert_close, run_relax
from tests.small_networks import NetworkWriter, nn

pytestmark = pytest.mark.fast

GAMMA, BETA, MEAN = (np.array(row, "float32") for row in ([1, -2, 3], [0.5, 0, 1], [4, 5, 6]))
VARIANCE = np.array([4, 16, 0.25], "float32") - np.float32(0.125)
EPSILON = 0.125
A = np.array([0.5, -0.5, 6], "float32")  # gamma / sqrt(variance + epsilon)
B = np.array([-1.5, 2.5, -35], "float32")  # beta - mean * a
A4, B4 = A.reshape(3, 1, 1, 1), B.reshape(1, 3, 1, 1)
A3, B3 = A.reshape(1, 3, 1), B.reshape(1, 3, 1)


def test_an_image_gets_a_depthwise_convolution(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 4, 4), "float32")) -> R.Tensor((2, 3, 4, 4), "float32"):
            with R.dataflow():
                n = R.nn.batch_norm(
                    x,
                    R.const(GAMMA),
                    R.const(BETA),
                    R.const(MEAN),
                    R.const(VARIANCE),
                    axis=1,
                    epsilon=EPSILON,
                    training=False,
                )
                y = n[0]
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3, 4, 4), "float32")) -> R.Tensor((2, 3, 4, 4), "float32"):
            with R.dataflow():
                c = R.nn.conv2d(x, R.const(A4), groups=3)
                y = R.add(c, R.const(B4))
                R.output(y)
            return y

    expect_rewrite(LowerBatchNorm(), Before, Expected)


def test_another_rank_gets_a_product_and_a_sum(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 4), "float32")) -> R.Tensor((2, 3, 4), "float32"):
            with R.dataflow():
                n = R.nn.batch_norm(
                    x,
                    R.const(GAMMA),
                    R.const(BETA),
                    R.const(MEAN),
                    R.const(VARIANCE),
                    axis=1,
                    epsilon=EPSILON,
                    training=False,
                )
                y = n[0]
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3, 4), "float32")) -> R.Tensor((2, 3, 4), "float32"):
            with R.dataflow():
                c = R.multiply(x, R.const(A3))
                y = R.add(c, R.const(B3))
                R.output(y)
            return y

    expect_rewrite(LowerBatchNorm(), Before, Expected)


def norm(x: relax.Expr, axis: int = 1, **attributes) -> relax.Expr:
    arrays = [relax.const(array) for array in (GAMMA, BETA, MEAN, VARIANCE)]
    options = {"epsilon": EPSILON, "training": False} | attributes
    return nn.batch_norm(x, *arrays, axis=axis, **options)


def network(net: NetworkWriter, x: relax.Expr, **attributes):
    n = net.emit("n", norm(x, **attributes))
    return net.module(net.emit("y", relax.TupleGetItem(n, 0)))


@pytest.mark.parametrize("case", [{"training": True}, {"axis": 3}, {"axis": -2}])
def test_other_norms_stay(expect_rewrite, case):
    net = NetworkWriter((2, 3, 3, 3))
    mod = network(net, net.x, **case)
    expect_rewrite(LowerBatchNorm(), mod, mod)


@pytest.mark.parametrize("case", [{}, {"center": False}, {"scale": False}])
def test_numbers_are_those_of_the_norm(case):
    net = NetworkWriter((2, 3, 4, 5))
    mod = network(net, net.x, **case)
    x = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype("float32")
    after = LowerBatchNorm()(mod)
    assert [dataflow.operator(value) for _, value in dataflow.calls(after["main"])] == [
        "nn.conv2d",
        "add",
    ]
    assert_close(run_relax(after, x), run_relax(mod, x))


def test_behind_a_dq_its_weights_are_127_steps_of_their_own_scale():
    net = NetworkWriter((2, 3, 4, 4))
    s, z = relax.const(np.float32(0.5)), relax.const(np.int8(0))
    q = net.emit("q", relax.op.quantize(net.x, s, z))
    after = LowerBatchNorm()(network(net, net.emit("d", relax.op.dequantize(q, s, z))))
    values = {str(var.name): value for var, value in dataflow.calls(after["main"])}
    assert [dataflow.operator(value) for value in values.values()] == [
        *("quantize", "dequantize") * 2,
        "nn.conv2d",
        "add",
    ]
    weight = list(values.values())[2]
    reals, scales, zeros = map(dataflow.constant, weight.args)
    np.testing.assert_array_equal(reals.reshape(-1), A)
    np.testing.assert_array_equal(np.rint(A / scales), 127 * np.sign(A))
    assert np.abs(np.float64(scales) * 127 / np.abs(A) - 1).max() <= 2.0**-23
    assert zeros.dtype == np.int8 and not zeros.any() and weight.attrs.axis == 0
