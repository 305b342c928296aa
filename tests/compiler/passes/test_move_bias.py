"""MoveBias: the bias of heads is that of the product before them."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.passes.normalize.move_bias import MoveBias
from relay_int8.graph import dataflow
from relay_int8.graph.declined import collecting_declined
from tests.mxnet_models import run_fast
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


def network(bias: tuple[int, ...], *, is_read_twice: bool = False):
    """A product, cut into 2 heads of 3 channels, with a bias behind."""
    net = NetworkWriter((2, 4, 5))
    rows = net.emit("m", relax.op.matmul(net.x, net.constant(5, 6)))
    heads = net.emit("r", relax.op.reshape(rows, (2, 4, 2, 3)))
    y = net.emit("y", relax.op.add(net.constant(*bias), heads))
    return net.module(net.emit("z", relax.op.multiply(y, heads)) if is_read_twice else y)


@pytest.mark.parametrize("bias", [(2, 3), (1, 1, 2, 3), (3,), (2, 1)])
def test_the_bias_comes_before_the_reshape(bias):
    before = network(bias)
    original = before.clone()
    after = MoveBias()(before)
    assert [dataflow.operator(call) for _, call in dataflow.calls(after["main"])] == [
        "matmul", "add", "reshape",
    ]  # fmt: skip
    *_, (var, _) = dataflow.calls(after["main"])
    assert var.name == "y"
    x = np.random.default_rng(0).normal(size=(2, 4, 5)).astype("float32")
    np.testing.assert_array_equal(run_fast(after, x)[0], run_fast(before, x)[0])
    assert before.script() == original.script()


@pytest.mark.parametrize(
    ("bias", "options", "reason"),
    [
        ((4, 1, 1), {}, "is not one of m's channels"),
        ((2, 3), {"is_read_twice": True}, "which something else reads too"),
    ],
)
def test_other_sums_stay(bias, options, reason):
    before = network(bias, **options)
    with collecting_declined() as declined:
        after = MoveBias()(before)
    assert after.script() == before.script()
    assert reason in declined[0].reason
