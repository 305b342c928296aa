"""ReplaceSplit: parts become slices with the same numbers."""

import numpy as np
import pytest
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.normalize.replace_split import ReplaceSplit
from relay_int8.compiler.pipeline import normalize
from relay_int8.graph.dataflow import calls, operator
from relay_int8.graph.groups import find_groups
from tests.onnx_models import run_relax
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("sections", [3, [1, 4]])
def test_split_becomes_slices(sections):
    net = NetworkWriter((1, 6, 4, 4))
    parts = net.emit("parts", relax.op.split(net.x, sections, axis=1))
    y = net.emit("y", relax.TupleGetItem(parts, 1))
    z = net.emit("z", relax.TupleGetItem(parts, 2))
    mod = net.module(y, z)
    after = ReplaceSplit()(mod)
    assert [operator(value) for _, value in calls(after["main"])] == ["strided_slice"] * 2
    x = np.arange(96, dtype="float32").reshape(1, 6, 4, 4)
    for found, wanted in zip(run_relax(after, x), run_relax(mod, x), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_before_and_expected(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 5, 3), "float32")) -> R.Tensor((2, 2, 3), "float32"):
            with R.dataflow():
                parts = R.split(x, [1, 3], axis=1)
                y = parts[1]
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 5, 3), "float32")) -> R.Tensor((2, 2, 3), "float32"):
            with R.dataflow():
                y = R.strided_slice(x, axes=[1], begin=[1], end=[3])
                R.output(y)
            return y

    expect_rewrite(ReplaceSplit(), Before, Expected)


def test_one_part_is_a_slice_of_all(expect_rewrite):
    """In Relax its split gives a tensor, not a tuple."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 5), "float32")) -> R.Tensor((5,), "float32"):
            with R.dataflow():
                part = R.split(x, 1, axis=0)
                y = R.squeeze(part, [0])
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((1, 5), "float32")) -> R.Tensor((5,), "float32"):
            with R.dataflow():
                part = R.strided_slice(x, axes=[0], begin=[0], end=[1])
                y = R.squeeze(part, [0])
                R.output(y)
            return y

    expect_rewrite(ReplaceSplit(), Before, Expected)


def test_a_part_of_a_constant_is_weights():
    """Queries of DAB-DETR's first decoder layer: constants, of which a split takes a part."""
    net = NetworkWriter((1, 2, 8, 9))
    parts = net.emit("parts", relax.op.split(net.constant(1, 2, 6, 16), 2, axis=3))
    queries = net.emit("queries", relax.TupleGetItem(parts, 0))
    mod = normalize()(net.module(net.emit("y", relax.op.matmul(queries, net.x))))
    kinds = [group.kind for group in find_groups(mod["main"])]
    assert "conv2d" in kinds and "dense" not in kinds
