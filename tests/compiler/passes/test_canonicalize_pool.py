"""CanonicalizePool: reductions over the image are pooling."""

import numpy as np
import pytest
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.normalize.canonicalize_pool import CanonicalizePool
from tests.onnx_models import assert_close, run_relax
from tests.small_networks import NetworkWriter, nn

pytestmark = pytest.mark.fast


def test_a_mean_without_its_axes_is_a_pool_and_a_reshape(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 5, 7), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                y = R.mean(x, axis=[2, 3], keepdims=False)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3, 5, 7), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                p = R.nn.avg_pool2d(x, pool_size=(5, 7))
                y = R.reshape(p, (2, 3))
                R.output(y)
            return y

    expect_rewrite(CanonicalizePool(), Before, Expected)


def test_a_maximum_along_one_axis_is_a_pool_of_its_extent(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 5, 7), "float32")) -> R.Tensor((2, 3, 5, 1), "float32"):
            with R.dataflow():
                y = R.max(x, axis=[-1], keepdims=True)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3, 5, 7), "float32")) -> R.Tensor((2, 3, 5, 1), "float32"):
            with R.dataflow():
                y = R.nn.max_pool2d(x, pool_size=(1, 7))
                R.output(y)
            return y

    expect_rewrite(CanonicalizePool(), Before, Expected)


def test_an_adaptive_pool_of_equal_windows_is_a_pool(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 6, 8), "float32")) -> R.Tensor((2, 3, 3, 2), "float32"):
            with R.dataflow():
                y = R.nn.adaptive_avg_pool2d(x, (3, 2))
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3, 6, 8), "float32")) -> R.Tensor((2, 3, 3, 2), "float32"):
            with R.dataflow():
                y = R.nn.avg_pool2d(x, pool_size=(2, 4), strides=(2, 4))
                R.output(y)
            return y

    expect_rewrite(CanonicalizePool(), Before, Expected)


KEPT = {
    "channels too": lambda x: relax.op.mean(x, [1, 2, 3]),
    "all axes": lambda x: relax.op.max(x),
    "channels alone": lambda x: relax.op.mean(x, [1], keepdims=True),
    "a sum": lambda x: relax.op.sum(x, [2, 3]),
    "windows that differ": lambda x: nn.adaptive_avg_pool2d(x, (4, 2)),
    "channels last": lambda x: nn.adaptive_avg_pool2d(x, (1, 1), layout="NHWC"),
}


@pytest.mark.parametrize("case", KEPT)
def test_other_reductions_stay(expect_rewrite, case):
    net = NetworkWriter((2, 6, 6, 8))
    mod = net.module(net.emit("y", KEPT[case](net.x)))
    expect_rewrite(CanonicalizePool(), mod, mod)


def test_a_reduction_of_another_rank_stays(expect_rewrite):
    net = NetworkWriter((2, 6, 8))
    mod = net.module(net.emit("y", relax.op.mean(net.x, [2])))
    expect_rewrite(CanonicalizePool(), mod, mod)


def test_numbers_stay():
    net = NetworkWriter((2, 3, 6, 8))
    outputs = [
        net.emit("a", relax.op.mean(net.x, [3, 2])),
        net.emit("b", relax.op.mean(net.x, [2], keepdims=True)),
        net.emit("c", relax.op.max(net.x, [-2])),
        net.emit("d", nn.adaptive_avg_pool2d(net.x, (3, 4))),
        net.emit("e", nn.adaptive_avg_pool2d(net.x, (1, 1))),
    ]
    mod = net.module(*outputs)
    x = np.random.default_rng(0).normal(size=(2, 3, 6, 8)).astype("float32")
    assert_close(run_relax(CanonicalizePool()(mod), x), run_relax(mod, x))
