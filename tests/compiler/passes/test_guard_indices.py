"""GuardIndices: computed indices stay inside of what they index."""

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.lower.guard_indices import GuardIndices
from relay_int8.errors import UnsupportedOpError
from relay_int8.graph.dataflow import FunctionWriter
from tests.mxnet_models import run_lowered

pytestmark = pytest.mark.fast
INF = np.float32(np.inf)
REGIONS_LOW = np.array([0, -INF, -INF, -INF, -INF], "float32")
REGIONS_HIGH = np.array([3, INF, INF, INF, INF], "float32")
PAIR_LOW, PAIR_HIGH = np.array([0, 0], "int64"), np.array([3, 7], "int64")


def test_elements_are_gathered_inside_of_their_axis(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 8), "float32"), i: R.Tensor((4, 2), "int64")) -> R.Tensor(
            (4, 2), "float32"
        ):
            with R.dataflow():
                y = R.gather_elements(x, i, axis=1)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4, 8), "float32"), i: R.Tensor((4, 2), "int64")) -> R.Tensor(
            (4, 2), "float32"
        ):
            with R.dataflow():
                low = R.maximum(i, R.const(0, "int64"))
                high = R.minimum(low, R.const(7, "int64"))
                y = R.gather_elements(x, high, axis=1)
                R.output(y)
            return y

    expect_rewrite(GuardIndices(), Before, Expected)


def test_each_axis_of_a_position_has_its_own_bound(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 8, 3), "float32"), i: R.Tensor((5, 2), "int64")) -> R.Tensor(
            (5, 3), "float32"
        ):
            with R.dataflow():
                y = R.gather_nd(x, i)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4, 8, 3), "float32"), i: R.Tensor((5, 2), "int64")) -> R.Tensor(
            (5, 3), "float32"
        ):
            with R.dataflow():
                low = R.maximum(i, R.const(PAIR_LOW, "int64"))
                high = R.minimum(low, R.const(PAIR_HIGH, "int64"))
                y = R.gather_nd(x, high)
                R.output(y)
            return y

    expect_rewrite(GuardIndices(), Before, Expected)


def test_of_a_region_the_image_alone_is_an_index(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 2, 9, 9), "float32"), i: R.Tensor((6, 5), "float32")) -> R.Tensor(
            (6, 2, 3, 3), "float32"
        ):
            with R.dataflow():
                y = R.vision.roi_align(x, i, (3, 3), 1.0)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4, 2, 9, 9), "float32"), i: R.Tensor((6, 5), "float32")) -> R.Tensor(
            (6, 2, 3, 3), "float32"
        ):
            with R.dataflow():
                low = R.maximum(i, R.const(REGIONS_LOW))
                high = R.minimum(low, R.const(REGIONS_HIGH))
                y = R.vision.roi_align(x, high, (3, 3), 1.0)
                R.output(y)
            return y

    expect_rewrite(GuardIndices(), Before, Expected)


def test_a_take_is_asked_to_clip(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((4, 8), "float32"), i: R.Tensor((3,), "int64")) -> R.Tensor(
            (4, 3), "float32"
        ):
            with R.dataflow():
                y = R.take(x, i, axis=1, mode="fast")
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((4, 8), "float32"), i: R.Tensor((3,), "int64")) -> R.Tensor(
            (4, 3), "float32"
        ):
            with R.dataflow():
                y = R.take(x, i, axis=1, mode="clip")
                R.output(y)
            return y

    expect_rewrite(GuardIndices(), Before, Expected)


def gathered(make, *arguments: relax.Expr):
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    writer = FunctionWriter()
    return writer.finish([x], [writer.emit("y", make(x, *arguments))])


VALID = relax.const(np.array([[0, 7]] * 4, "int64"))


def test_constant_indices_that_are_valid_stay(expect_rewrite):
    for mod in (
        gathered(lambda x, i: relax.op.gather_elements(x, i, axis=1), VALID),
        gathered(lambda x, i: relax.op.take(x, i, axis=0, mode="clip"), VALID),
        gathered(lambda x: relax.op.nn.relu(x)),
    ):
        expect_rewrite(GuardIndices(), mod, mod)


def test_a_take_is_compiled_without_a_warning_of_tvm(capfd):
    row = relax.const(np.array([0, 7], "int64"))
    mod = gathered(lambda x, i: relax.op.take(x, i, axis=1, mode="fast"), row)
    x = np.arange(32, dtype="float32").reshape(4, 8)
    (y,) = run_lowered(mod, x)
    np.testing.assert_array_equal(y, x[:, [0, 7]])
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("index", [-1, 8])
def test_constant_indices_outside_are_clamped(expect_rewrite, index):
    indices = relax.const(np.array([[0, index]] * 4, "int64"))
    mod = gathered(lambda x, i: relax.op.gather_elements(x, i, axis=1), indices)
    after = GuardIndices()(mod)["main"].script()
    assert "R.maximum" in after and "R.minimum" in after


def test_an_open_batch_is_refused():
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 8), "float32"))
    i = relax.Var("i", relax.TensorType((3, 8), "int64"))
    writer = FunctionWriter()
    mod = writer.finish([x, i], [writer.emit("y", relax.op.gather_elements(x, i, axis=0))])
    with pytest.raises(UnsupportedOpError, match=r"y \(gather_elements\) indexes along an open ba"):
        GuardIndices()(mod)
