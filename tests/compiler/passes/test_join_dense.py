"""JoinDense: two products by constant matrices become one where that is less work."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.passes.normalize.join_dense import JoinDense
from relay_int8.graph import dataflow
from tests.mxnet_models import run_fast
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


def network(middle=9, out=6, *, rows=(8,), bias=False, is_read_twice=False, merges_last=False):
    """Two linear layers, with a reshape of rows between them if ``rows`` says so."""
    net = NetworkWriter((2, 4, 5))
    first = y = net.emit("p", relax.op.matmul(net.x, net.constant(5, middle)))
    if bias:
        y = net.emit("a", relax.op.add(y, net.constant(middle)))
    if merges_last:
        y, middle = net.emit("r", relax.op.reshape(y, (2, 4 * middle))), 4 * middle
    elif rows:
        y = net.emit("r", relax.op.reshape(y, (*rows, middle)))
    y = net.emit("y", relax.op.matmul(y, net.constant(middle, out)))
    return net.module(y, *[net.emit("z", relax.op.tanh(first))] * is_read_twice)


@pytest.mark.parametrize(("rows", "kinds"), [((8,), ["reshape", "matmul"]), ((), ["matmul"])])
def test_two_products_are_one(rows, kinds):
    before = network(rows=rows)
    original = before.clone()
    after = JoinDense()(before)
    found = list(dataflow.calls(after["main"]))
    assert [dataflow.operator(value) for _, value in found] == kinds
    assert found[-1][0].name == "y" and dataflow.shape(found[-1][1].args[1]) == (5, 6)
    x = np.random.default_rng(0).normal(size=(2, 4, 5)).astype("float32")
    np.testing.assert_allclose(run_fast(after, x)[0], run_fast(before, x)[0], rtol=0, atol=1e-5)
    assert before.script() == original.script()


def test_three_products_are_one():
    net = NetworkWriter((4, 5))
    y = net.x
    for name, shape in {"p": (5, 7), "q": (7, 8), "y": (8, 6)}.items():
        y = net.emit(name, relax.op.matmul(y, net.constant(*shape)))
    after = JoinDense()(net.module(y))
    assert [dataflow.operator(value) for _, value in dataflow.calls(after["main"])] == ["matmul"]


@pytest.mark.parametrize(
    "options",
    [
        {"middle": 2},  # 5 * 6 products of one matrix, 5 * 2 + 2 * 6 of two
        {"bias": True},
        {"is_read_twice": True},
        {"merges_last": True},
    ],
    ids=str,
)
def test_other_products_stay(options):
    before = network(**options)
    assert JoinDense()(before).script() == before.script()
