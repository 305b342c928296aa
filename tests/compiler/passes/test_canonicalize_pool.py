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


def test_a_window_beyond_the_image_and_its_border_is_cut(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 3, 5, 7), "float32")) -> R.Tensor((1, 3, 1, 3), "float32"):
            with R.dataflow():
                y = R.nn.avg_pool2d(
                    x, (2560, 3), strides=(2560, 3), padding=(1, 0, 1, 0), ceil_mode=True
                )
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((1, 3, 5, 7), "float32")) -> R.Tensor((1, 3, 1, 3), "float32"):
            with R.dataflow():
                y = R.nn.avg_pool2d(
                    x, (7, 3), strides=(2560, 3), padding=(1, 0, 1, 0), ceil_mode=True
                )
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


def test_an_adaptive_pool_of_windows_that_differ_is_a_product(expect_rewrite):
    before, after = NetworkWriter((2, 3, 3, 2)), NetworkWriter((2, 3, 3, 2))
    mod = before.module(before.emit("y", nn.adaptive_avg_pool2d(before.x, (2, 2))))
    pixels = after.emit("y/pixels", relax.op.reshape(after.x, (2, 3, 6)))
    first, second = [[1, 0], [0, 1]] * 2 + [[0, 0]] * 2, [[0, 0]] * 2 + [[1, 0], [0, 1]] * 2
    shares = np.hstack([first, second]).astype("float32") / 2
    means = after.emit("y/means", relax.op.matmul(pixels, relax.const(shares)))
    y = after.emit("y", relax.op.reshape(means, (2, 3, 2, 2)))
    expect_rewrite(CanonicalizePool(), mod, after.module(y))


@pytest.mark.parametrize(
    ("axes", "keepdims", "pixels"), [([2, 3], True, 48), ([-1], False, 8)], ids=["image", "rows"]
)
def test_a_sum_is_a_mean_times_its_pixels(expect_rewrite, axes, keepdims, pixels):
    before = NetworkWriter((2, 5, 6, 8))
    summed = relax.op.sum(before.x, axes, keepdims=keepdims)
    mod = before.module(before.emit("y", summed))
    after = NetworkWriter((2, 5, 6, 8))
    mean = nn.avg_pool2d(after.x, pool_size=(6, 8) if keepdims else (1, 8))
    if not keepdims:
        mean = relax.op.reshape(after.emit("y/mean_pool2d", mean), (2, 5, 6))
    mean = after.emit("y/mean", mean)
    product = relax.op.multiply(mean, relax.const(pixels, "float32"))
    expect_rewrite(CanonicalizePool(), mod, after.module(after.emit("y", product)))


def test_a_sum_of_a_quantized_model_stays(expect_rewrite):
    net = NetworkWriter((2, 5, 6, 8))
    scale, zero = relax.const(0.1, "float32"), relax.const(0, "int8")
    q = net.emit("q", relax.op.quantize(net.x, scale, zero, axis=1, out_dtype="int8"))
    x = net.emit("x", relax.op.dequantize(q, scale, zero, axis=1))
    mod = net.module(net.emit("y", relax.op.sum(x, [2, 3])))
    expect_rewrite(CanonicalizePool(), mod, mod)


KEPT = {
    "channels too": lambda x: relax.op.mean(x, [1, 2, 3]),
    "all axes": lambda x: relax.op.max(x),
    "channels alone": lambda x: relax.op.mean(x, [1], keepdims=True),
    "a sum of channels too": lambda x: relax.op.sum(x, [1, 2, 3]),
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
        net.emit("f", nn.adaptive_avg_pool2d(net.x, (4, 5))),
    ]
    mod = net.module(*outputs)
    x = np.random.default_rng(0).normal(size=(2, 3, 6, 8)).astype("float32")
    assert_close(run_relax(CanonicalizePool()(mod), x), run_relax(mod, x))
