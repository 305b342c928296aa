"""TransposeQuantized: weights behind a DQ are transposed as integers."""

import numpy as np
import pytest
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.normalize.transpose_quantized import TransposeQuantized

pytestmark = pytest.mark.fast

RNG = np.random.default_rng(0)
Q = RNG.integers(-127, 128, (3, 5)).astype("int8")
S = RNG.uniform(0.1, 1, 3).astype("float32")
Z = np.zeros(3, "int8")
Q_T = np.ascontiguousarray(Q.T)
REAL = RNG.normal(size=(3, 5)).astype("float32")
REAL_T = np.ascontiguousarray(REAL.T)
BOX = RNG.integers(-127, 128, (2, 3, 4)).astype("int8")
BOX_T = np.ascontiguousarray(BOX.transpose(2, 0, 1))


def test_the_axis_of_the_scales_moves_along(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 5), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                w = R.dequantize(R.const(Q), R.const(S), R.const(Z), axis=0)
                t = R.permute_dims(w, [1, 0])
                y = R.matmul(x, t)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 5), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                t = R.dequantize(R.const(Q_T), R.const(S), R.const(Z), axis=1)
                y = R.matmul(x, t)
                R.output(y)
            return y

    expect_rewrite(TransposeQuantized(), Before, Expected)


def test_without_axes_all_are_reversed(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 5), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                w = R.dequantize(R.const(Q), R.const(S), R.const(Z), axis=-2)
                t = R.permute_dims(w)
                y = R.matmul(x, t)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 5), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                t = R.dequantize(R.const(Q_T), R.const(S), R.const(Z), axis=1)
                y = R.matmul(x, t)
                R.output(y)
            return y

    expect_rewrite(TransposeQuantized(), Before, Expected)


def test_a_turn_of_three_axes(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 2, 3), "float32")) -> R.Tensor((4, 2, 3), "float32"):
            with R.dataflow():
                w = R.dequantize(R.const(BOX), R.const(S), R.const(Z), axis=1)
                t = R.permute_dims(w, [2, 0, 1])
                y = R.add(x, t)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4, 2, 3), "float32")) -> R.Tensor((4, 2, 3), "float32"):
            with R.dataflow():
                t = R.dequantize(R.const(BOX_T), R.const(S), R.const(Z), axis=2)
                y = R.add(x, t)
                R.output(y)
            return y

    expect_rewrite(TransposeQuantized(), Before, Expected)


def test_weights_with_a_pair_of_their_own_are_turned_before_it(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 5), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                q = R.quantize(R.const(REAL), R.const(S), R.const(Z), axis=0, out_dtype="int8")
                w = R.dequantize(q, R.const(S), R.const(Z), axis=0)
                t = R.permute_dims(w, [1, 0])
                y = R.matmul(x, t)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 5), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                q = R.quantize(R.const(REAL_T), R.const(S), R.const(Z), axis=1, out_dtype="int8")
                t = R.dequantize(q, R.const(S), R.const(Z), axis=1)
                y = R.matmul(x, t)
                R.output(y)
            return y

    expect_rewrite(TransposeQuantized(), Before, Expected)


def test_activations_are_turned_as_reals(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(q: R.Tensor((3, 5), "int8")) -> R.Tensor((5, 3), "float32"):
            with R.dataflow():
                x = R.dequantize(q, R.const(0.5), R.const(3, "int8"))
                y = R.permute_dims(x, [1, 0])
                R.output(y)
            return y

    expect_rewrite(TransposeQuantized(), Before, Before)


def test_weights_of_floats_stay(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 5), "float32")) -> R.Tensor((5, 3), "float32"):
            with R.dataflow():
                r = R.nn.relu(x)
                y = R.permute_dims(r, [1, 0])
                R.output(y)
            return y

    expect_rewrite(TransposeQuantized(), Before, Before)
