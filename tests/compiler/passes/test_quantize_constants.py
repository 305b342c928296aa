"""QuantizeConstants: float constants behind a Q/DQ pair become integers behind a DQ."""

import numpy as np
import pytest
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.normalize.quantize_constants import QuantizeConstants

pytestmark = pytest.mark.fast
LOOSE = np.array([[-3, 40], [0.06, 0.07]], "float32")
ONE = np.array([[0, 255], [8, 9]], "uint8")  # steps of 0.125, of which 8 is zero, clamped
S = np.array([0.125, 0.01], "float32")
Z = np.array([0, -2], "int8")
MANY = np.array([[-24, 127], [0, 5]], "int8")


def test_one_scale_for_all(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 2), "float32")) -> R.Tensor((3, 2), "float32"):
            with R.dataflow():
                q = R.quantize(
                    R.const(LOOSE), R.const(0.125), R.const(8, "uint8"), out_dtype="uint8"
                )
                w = R.dequantize(q, R.const(0.125), R.const(8, "uint8"))
                y = R.matmul(x, w)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((3, 2), "float32")) -> R.Tensor((3, 2), "float32"):
            with R.dataflow():
                w = R.dequantize(R.const(ONE), R.const(0.125), R.const(8, "uint8"))
                y = R.matmul(x, w)
                R.output(y)
            return y

    expect_rewrite(QuantizeConstants(), Before, Expected)


def test_transposed_weights_with_a_scale_for_each_column(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 2), "float32")) -> R.Tensor((3, 2), "float32"):
            with R.dataflow():
                q = R.quantize(R.const(LOOSE), R.const(S), R.const(Z), axis=1, out_dtype="int8")
                w = R.dequantize(q, R.const(S), R.const(Z), axis=1)
                t = R.permute_dims(w, [1, 0])
                y = R.matmul(x, t)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((3, 2), "float32")) -> R.Tensor((3, 2), "float32"):
            with R.dataflow():
                w = R.dequantize(R.const(MANY), R.const(S), R.const(Z), axis=1)
                t = R.permute_dims(w, [1, 0])
                y = R.matmul(x, t)
                R.output(y)
            return y

    expect_rewrite(QuantizeConstants(), Before, Expected)


def test_a_part_of_a_concat_keeps_its_pair(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 2), "float32")) -> R.Tensor((5, 2), "float32"):
            with R.dataflow():
                q = R.quantize(R.const(LOOSE), R.const(0.125), R.const(8, "int8"), out_dtype="int8")
                k = R.dequantize(q, R.const(0.125), R.const(8, "int8"))
                y = R.concat((x, k), axis=0)
                R.output(y)
            return y

    expect_rewrite(QuantizeConstants(), Before, Before)


def test_an_operand_of_single_elements(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 2), "float32")) -> R.Tensor((2, 2), "float32"):
            with R.dataflow():
                q = R.quantize(
                    R.const(LOOSE), R.const(0.125), R.const(8, "uint8"), out_dtype="uint8"
                )
                k = R.dequantize(q, R.const(0.125), R.const(8, "uint8"))
                y = R.maximum(x, k)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 2), "float32")) -> R.Tensor((2, 2), "float32"):
            with R.dataflow():
                k = R.dequantize(R.const(ONE), R.const(0.125), R.const(8, "uint8"))
                y = R.maximum(x, k)
                R.output(y)
            return y

    expect_rewrite(QuantizeConstants(), Before, Expected)
