"""MoveAffine: what is behind a layer's bounds becomes part of its weights and bias."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.passes.normalize.fold_affine import FoldAffine
from relay_int8.compiler.passes.normalize.move_affine import MoveAffine
from relay_int8.graph import dataflow
from relay_int8.graph.declined import collecting_declined
from tests.mxnet_models import run_fast
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


def network(bound, k=6.0, *, op=relax.op.divide, is_read_twice=False, is_shift_read=False):
    """A dense layer, a shift, bounds and a factor: a hard-sigmoid with ``clip`` and 6."""
    net = NetworkWriter((2, 5))
    rows = net.emit("m", relax.op.matmul(net.x, net.constant(5, 6)))
    shifted = net.emit("s", relax.op.add(rows, relax.const(3.0)))
    bounded = net.emit("k", bound(shifted))
    y = net.emit("y", op(bounded, relax.const(np.float32(k))))
    for other in [bounded] * is_read_twice + [rows] * is_shift_read:
        y = net.emit("z", relax.op.multiply(y, other))
    return net.module(y)


def clip(x):
    return relax.op.clip(x, relax.prim_value(0.0), relax.prim_value(6.0))


@pytest.mark.parametrize("bound", [clip, relax.op.nn.relu])
@pytest.mark.parametrize("op", [relax.op.divide, relax.op.multiply])
def test_the_layer_computes_the_factor(bound, op):
    before = network(bound, op=op)
    original = before.clone()
    after = FoldAffine()(MoveAffine()(before))
    *_, (var, _) = found = list(dataflow.calls(after["main"]))
    names = [dataflow.operator(call) for _, call in found]
    assert names == ["matmul", "add", dataflow.operator(bound(before["main"].params[0]))]
    assert var.name == "y"
    x = np.random.default_rng(0).normal(size=(2, 5)).astype("float32")
    expected = run_fast(before, x)[0]
    np.testing.assert_allclose(run_fast(after, x)[0], expected, rtol=1e-5, atol=1e-6)
    assert before.script() == original.script()


@pytest.mark.parametrize(("bound", "ends"), [(clip, (2.5, 8.5)), (relax.op.nn.relu, (2.5, np.inf))])
@pytest.mark.parametrize(("op", "k"), [(relax.op.add, 2.5), (relax.op.subtract, -2.5)])
def test_the_layer_adds_what_is_added(bound, ends, op, k):
    before = network(bound, k, op=op)
    after = FoldAffine()(MoveAffine()(before))
    *_, (var, last) = found = list(dataflow.calls(after["main"]))
    assert [dataflow.operator(call) for _, call in found] == ["matmul", "add", "clip"]
    assert var.name == "y"
    assert tuple(end.value for end in last.args[1:]) == ends
    x = np.random.default_rng(0).normal(size=(2, 5)).astype("float32")
    np.testing.assert_allclose(run_fast(after, x)[0], run_fast(before, x)[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"k": -6.0}, id="negative"),
        pytest.param({"k": np.inf}, id="infinite"),
        pytest.param({"k": np.arange(1.0, 7.0)}, id="of channels"),
        pytest.param({"is_shift_read": True}, id="read twice"),
        pytest.param({"k": np.inf, "op": relax.op.add}, id="infinite added"),
        pytest.param({"k": np.arange(1.0, 7.0), "op": relax.op.add}, id="of channels added"),
    ],
)
def test_other_factors_stay(options):
    before = network(clip, **options)
    assert MoveAffine()(before).script() == before.script()


def test_bounds_with_other_readers_stay():
    before = network(clip, is_read_twice=True)
    with collecting_declined() as declined:
        after = MoveAffine()(before)
    assert after.script() == before.script()
    assert "it is not moved in front of k, which something else reads too" in declined[0].reason
