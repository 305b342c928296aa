"""FoldPad: zero padding of height and width is the convolution's own."""

import numpy as np
import pytest
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.normalize.fold_pad import FoldPad
from tests.onnx_models import run_relax
from tests.small_networks import NetworkWriter, nn

pytestmark = pytest.mark.fast


def test_widths_are_added_to_the_padding(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((1, 2, 5, 5), "float32"), w: R.Tensor((3, 2, 3, 3), "float32")
        ) -> R.Tensor((1, 3, 6, 7), "float32"):
            with R.dataflow():
                p = R.nn.pad(x, [0, 0, 0, 0, 0, 1, 2, 1], "constant", 0.0)
                y = R.nn.conv2d(p, w, padding=[1, 1, 1, 0])
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(
            x: R.Tensor((1, 2, 5, 5), "float32"), w: R.Tensor((3, 2, 3, 3), "float32")
        ) -> R.Tensor((1, 3, 6, 7), "float32"):
            with R.dataflow():
                y = R.nn.conv2d(x, w, padding=[1, 3, 2, 1])
                R.output(y)
            return y

    expect_rewrite(FoldPad(), Before, Expected)


def test_a_pad_that_others_read_stays_for_them(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((1, 1, 4, 4), "float32"), w: R.Tensor((1, 1, 3, 3), "float32")
        ) -> R.Tensor((1, 1, 6, 6), "float32"):
            with R.dataflow():
                p = R.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1], "constant", 0.0)
                c = R.nn.conv2d(p, w, padding=[1, 1, 1, 1])
                y = R.add(c, p)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(
            x: R.Tensor((1, 1, 4, 4), "float32"), w: R.Tensor((1, 1, 3, 3), "float32")
        ) -> R.Tensor((1, 1, 6, 6), "float32"):
            with R.dataflow():
                p = R.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1], "constant", 0.0)
                c = R.nn.conv2d(x, w, padding=[2, 2, 2, 2])
                y = R.add(c, p)
                R.output(y)
            return y

    expect_rewrite(FoldPad(), Before, Expected)


@pytest.mark.parametrize(
    ("widths", "mode", "fill", "reason"),
    [
        ([0, 0, 0, 0, 1, 1, 1, 1], "constant", 0.5, "it pads with 0.5, not zero"),
        ([0, 0, 0, 0, 1, 1, 1, 1], "reflect", 0.0, "its mode is reflect, not constant"),
        ([0, 0, 0, 0, 1, 1, 1, 1], "edge", 0.0, "its mode is edge, not constant"),
        ([0, 0, 0, 1, 1, 1, 1, 1], "constant", 0.0, "it pads batch or channels"),
        ([1, 0, 0, 0, 1, 1, 1, 1], "constant", 0.0, "it pads batch or channels"),
    ],
)
def test_other_pads_stay(expect_rewrite, caplog, widths, mode, fill, reason):
    net = NetworkWriter((1, 2, 5, 5))
    p = net.emit("p", nn.pad(net.x, widths, mode, fill))
    mod = net.module(net.emit("y", nn.conv2d(p, net.constant(3, 2 + widths[3], 3, 3))))
    with caplog.at_level("DEBUG"):
        expect_rewrite(FoldPad(), mod, mod)
    assert reason in caplog.text


def test_a_convolution_of_another_layout_keeps_its_pad(expect_rewrite, caplog):
    net = NetworkWriter((1, 5, 5, 2))
    p = net.emit("p", nn.pad(net.x, [0, 0, 0, 0, 1, 1, 0, 0], "constant", 0.0))
    conv = nn.conv2d(p, net.constant(3, 3, 3, 2), data_layout="NHWC", kernel_layout="OHWI")
    mod = net.module(net.emit("y", conv))
    with caplog.at_level("DEBUG"):
        expect_rewrite(FoldPad(), mod, mod)
    assert "the convolution is NHWC" in caplog.text


def test_numbers_stay():
    net = NetworkWriter((2, 4, 7, 6))
    p = net.emit("p", nn.pad(net.x, [0, 0, 0, 0, 2, 0, 1, 3], "constant", 0.0))
    attrs = dict(strides=2, padding=(1, 0, 2, 1), dilation=(1, 2), groups=2)
    mod = net.module(net.emit("y", nn.conv2d(p, net.constant(6, 2, 3, 3), **attrs)))
    x = np.random.default_rng(0).integers(-9, 10, (2, 4, 7, 6)).astype("float32")
    after = FoldPad()(mod)
    relax.analysis.well_formed(after)
    np.testing.assert_array_equal(run_relax(after, x)[0], run_relax(mod, x)[0])
