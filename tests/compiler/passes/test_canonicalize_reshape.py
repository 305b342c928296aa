"""CanonicalizeReshape: what keeps the row-major order is one reshape."""

import numpy as np
import pytest
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.normalize.canonicalize_reshape import CanonicalizeReshape
from relay_int8.graph.dataflow import calls, operator
from tests.mxnet_models import run_fast
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


def test_a_chain_is_one_reshape(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 1, 4), "float32")) -> R.Tensor((24,), "float32"):
            with R.dataflow():
                s = R.squeeze(x, [2])
                e = R.expand_dims(s, [0])
                r = R.reshape(e, (6, 4))
                f = R.flatten(r)
                y = R.nn.relu(f)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3, 1, 4), "float32")) -> R.Tensor((24,), "float32"):
            with R.dataflow():
                f = R.reshape(x, (24,))
                y = R.nn.relu(f)
                R.output(y)
            return y

    expect_rewrite(CanonicalizeReshape(), Before, Expected)


def test_a_chain_back_to_its_start_is_nothing(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                f = R.flatten(x)
                r = R.reshape(f, (2, 3))
                y = R.nn.relu(r)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                y = R.nn.relu(x)
                R.output(y)
            return y

    expect_rewrite(CanonicalizeReshape(), Before, Expected)


def test_a_tensor_that_others_read_stays_for_them(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3, 1), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                f = R.flatten(x)
                r = R.nn.relu(f)
                e = R.expand_dims(f, [0])
                y = R.add(e, r)
                z = R.reshape(y, (2, 3))
                R.output(z)
            return z

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 3, 1), "float32")) -> R.Tensor((2, 3), "float32"):
            with R.dataflow():
                f = R.reshape(x, (6,))
                r = R.nn.relu(f)
                e = R.reshape(x, (1, 6))
                y = R.add(e, r)
                z = R.reshape(y, (2, 3))
                R.output(z)
            return z

    expect_rewrite(CanonicalizeReshape(), Before, Expected)


@pytest.mark.parametrize(
    ("dims", "axes"),
    [
        ((1, 3, 1, 8), [0, 2, 1, 3]),
        ((1, 3, 1, 8), [2, 1, 3, 0]),
        ((1, 1, 7), None),
    ],
)
def test_a_turn_of_single_rows_is_a_reshape(expect_rewrite, dims, axes):
    net, wanted = NetworkWriter(dims), NetworkWriter(dims)
    order = axes or [2, 1, 0]
    turned = [dims[axis] for axis in order]
    before = net.module(net.relu("y", net.emit("t", relax.op.permute_dims(net.x, axes))))
    expected = wanted.module(wanted.relu("y", wanted.emit("t", relax.op.reshape(wanted.x, turned))))
    expect_rewrite(CanonicalizeReshape(), before, expected)


@pytest.mark.parametrize(
    ("dims", "axes"), [((1, 3, 4, 8), [0, 2, 3, 1]), ((2, 3), None), ((2, 1, 3), [2, 1, 0])]
)
def test_a_turn_that_moves_data_stays(expect_rewrite, dims, axes):
    net = NetworkWriter(dims)
    mod = net.module(net.relu("y", net.emit("t", relax.op.permute_dims(net.x, axes))))
    expect_rewrite(CanonicalizeReshape(), mod, mod)


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ([1, 2, 0], [1, 0, 2], ["permute_dims"]),
        ([1, 2, 0], [2, 0, 1], []),
        (None, [2, 1, 0], []),
        ([0, 2, 1], [2, 0, 1], ["permute_dims"]),
    ],
    ids=str,
)
def test_two_permutations_are_one(first, second, wanted):
    net = NetworkWriter((2, 3, 4))
    turned = net.emit("p", relax.op.permute_dims(net.x, first))
    y = net.emit("y", relax.op.permute_dims(turned, second))
    before = net.module(net.emit("z", relax.op.negative(y)))
    after = CanonicalizeReshape()(before)
    assert [operator(value) for _, value in calls(after["main"])] == [*wanted, "negative"]
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    np.testing.assert_array_equal(run_fast(after, x)[0], run_fast(before, x)[0])
