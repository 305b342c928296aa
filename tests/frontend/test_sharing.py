"""What a network computes several times is computed once; what differs stays."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.frontend.sharing import share_equal
from relay_int8.graph.dataflow import calls, operator, results
from tests.mxnet_models import run_fast
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


def operators(mod):
    return [operator(value) for _, value in calls(mod["main"])]


def test_equal_values_are_computed_once():
    net = NetworkWriter((2, 4))
    sums = []
    for _ in range(2):
        gate = net.emit("gate", relax.op.sigmoid(net.x))
        gated = net.emit("gated", relax.op.multiply(gate, relax.const(np.float32(2))))
        sums.append(net.emit("sum", relax.op.nn.softmax(gated, 1)))
    before = net.module(net.emit("y", relax.op.add(*sums)))
    original = before.clone()
    after = share_equal(before)
    assert operators(after) == ["sigmoid", "multiply", "nn.softmax", "add"]
    x = np.random.default_rng(0).normal(size=(2, 4)).astype("float32")
    np.testing.assert_array_equal(run_fast(after, x)[0], run_fast(before, x)[0])
    assert before.script() == original.script()


def test_other_attributes_constants_and_operands_are_other_values():
    net = NetworkWriter((2, 4))
    rows, columns = (net.emit("s", relax.op.nn.softmax(net.x, axis)) for axis in (0, 1))
    doubled = net.emit("m", relax.op.multiply(rows, relax.const(np.float32(2))))
    tripled = net.emit("m", relax.op.multiply(rows, relax.const(np.float32(3))))
    parts = [net.emit("q", relax.op.quantize(columns, relax.const(0.1), relax.const(0, "int8"), 0))
             for _ in range(2)]  # fmt: skip
    parts = [net.emit("d", relax.op.dequantize(q, relax.const(0.1), relax.const(0, "int8"), 0))
             for q in parts]  # fmt: skip
    before = net.module(net.emit("y", relax.op.concat([doubled, tripled, *parts], 0)))
    assert operators(share_equal(before)) == operators(before)


def test_results_stay_tensors_of_their_own():
    net = NetworkWriter((2, 4))
    y, z = (net.emit(name, relax.op.tanh(net.x)) for name in "yz")
    after = share_equal(net.module(y, z))
    assert [var.name for var in results(after["main"])] == ["y", "z"]
    assert operators(after).count("tanh") == 1
