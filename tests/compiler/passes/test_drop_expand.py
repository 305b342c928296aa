"""DropExpand: a product broadcasts a gate by itself."""

import pytest
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.normalize.drop_expand import DropExpand

pytestmark = pytest.mark.fast


def test_the_gate_is_broadcast_by_the_product(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((2, 3, 4, 4), "float32"), g: R.Tensor((2, 3, 1, 1), "float32")
        ) -> R.Tensor((2, 3, 4, 4), "float32"):
            with R.dataflow():
                e = R.broadcast_to(g, (2, 3, 4, 4))
                y = R.multiply(e, x)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(
            x: R.Tensor((2, 3, 4, 4), "float32"), g: R.Tensor((2, 3, 1, 1), "float32")
        ) -> R.Tensor((2, 3, 4, 4), "float32"):
            with R.dataflow():
                y = R.multiply(x, g)
                R.output(y)
            return y

    expect_rewrite(DropExpand(), Before, Expected)


def test_what_else_reads_the_expanded_gate_keeps_it(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(
            x: R.Tensor((2, 3, 4, 4), "float32"), g: R.Tensor((2, 3, 1, 1), "float32")
        ) -> R.Tensor((2, 3, 4, 4), "float32"):
            with R.dataflow():
                e = R.broadcast_to(g, (2, 3, 4, 4))
                p = R.multiply(x, e)
                y = R.add(p, e)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(
            x: R.Tensor((2, 3, 4, 4), "float32"), g: R.Tensor((2, 3, 1, 1), "float32")
        ) -> R.Tensor((2, 3, 4, 4), "float32"):
            with R.dataflow():
                e = R.broadcast_to(g, (2, 3, 4, 4))
                p = R.multiply(x, g)
                y = R.add(p, e)
                R.output(y)
            return y

    expect_rewrite(DropExpand(), Before, Expected)


def test_a_gate_of_fewer_axes_stays(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 4, 4), "float32"), g: R.Tensor((4, 4), "float32")) -> R.Tensor(
            (3, 4, 4), "float32"
        ):
            with R.dataflow():
                e = R.broadcast_to(g, (3, 4, 4))
                y = R.multiply(x, e)
                R.output(y)
            return y

    expect_rewrite(DropExpand(), Before, Before)


def test_two_gates_that_make_the_shape_together_stay(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 1), "float32"), g: R.Tensor((1, 4), "float32")) -> R.Tensor(
            (3, 4), "float32"
        ):
            with R.dataflow():
                e = R.broadcast_to(g, (3, 4))
                y = R.multiply(x, e)
                R.output(y)
            return y

    expect_rewrite(DropExpand(), Before, Before)


def test_sums_stay(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((3, 4), "float32"), g: R.Tensor((1, 4), "float32")) -> R.Tensor(
            (3, 4), "float32"
        ):
            with R.dataflow():
                e = R.broadcast_to(g, (3, 4))
                y = R.add(x, e)
                R.output(y)
            return y

    expect_rewrite(DropExpand(), Before, Before)
