"""SeparateRows: a dense layer between two reshapes of rows needs neither."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.passes.normalize.separate_rows import SeparateRows
from relay_int8.graph import dataflow
from tests.mxnet_models import run_fast
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


def network(bias=(6,), target=(2, 4, 6), *, rows=(8, 5), is_read_twice=False):
    """A linear layer as PyTorch decomposes it: view, addmm, view."""
    net = NetworkWriter((2, 4, 5))
    merged = net.emit("r", relax.op.reshape(net.x, rows))
    product = y = net.emit("m", relax.op.matmul(merged, net.constant(rows[1], 6)))
    if bias is not None:
        y = net.emit("a", relax.op.add(net.constant(*bias), product))
    y = net.emit("y", relax.op.reshape(y, target))
    return net.module(y, *[net.emit("z", relax.op.tanh(product))] * is_read_twice)


@pytest.mark.parametrize("bias", [(6,), (1,), None])
def test_the_layer_reads_the_tensor_itself(bias):
    before = network(bias)
    original = before.clone()
    after = SeparateRows()(before)
    found = list(dataflow.calls(after["main"]))
    assert [dataflow.operator(value) for _, value in found] == ["matmul", "add"][: 1 + bool(bias)]
    assert found[-1][0].name == "y"
    x = np.random.default_rng(0).normal(size=(2, 4, 5)).astype("float32")
    np.testing.assert_array_equal(run_fast(after, x)[0], run_fast(before, x)[0])
    assert before.script() == original.script()


@pytest.mark.parametrize(
    "options",
    [
        {"bias": (8, 6)},
        {"target": (4, 2, 6)},
        {"target": (2, 4, 2, 3)},
        {"rows": (4, 10), "target": (2, 2, 6)},
        {"is_read_twice": True},
    ],
    ids=str,
)
def test_other_layers_stay(options):
    before = network(**options)
    assert SeparateRows()(before).script() == before.script()
