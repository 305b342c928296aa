"""JoinMasks: a constant mask of scores is added to the computed one."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.normalize.join_masks import JoinMasks
from relay_int8.graph import dataflow
from relay_int8.graph.dataflow import FunctionWriter

pytestmark = pytest.mark.fast
R = relax.op
PAST = relax.const(np.triu(np.full((4, 4), -1e9, np.float32), 1))


def scored(order, *, read_twice=False, softmax=True):
    """Return a module that adds masks to a product in an order: "b" is computed, "c" constant."""
    func = FunctionWriter()
    q, k, b = (
        relax.Var(name, relax.TensorType(dims, "float32"))
        for name, dims in (("q", (1, 2, 4, 3)), ("k", (1, 2, 3, 4)), ("b", (1, 1, 4, 4)))
    )
    bias = func.emit("bias", R.multiply(b, b)) if "b" in order else None
    first = func.emit("first", R.add(func.emit("s", R.matmul(q, k)), _mask(order[0], bias)))
    second = func.emit("second", R.add(first, _mask(order[1], bias)))
    y = func.emit("y", R.nn.softmax(second) if softmax else R.nn.relu(second))
    outputs = [y, func.emit("other", R.nn.relu(first))] if read_twice else [y]
    return func.finish([q, k, b], outputs)


def _mask(kind, bias):
    return PAST if kind == "c" else bias


@pytest.mark.parametrize("order", ["bc", "cb"])
def test_both_masks_are_one(order):
    before = scored(order)
    kept = before.clone()
    after = JoinMasks()(before)
    tvm.ir.assert_structural_equal(before, kept)
    values = {str(var.name): value for var, value in dataflow.calls(after["main"])}
    assert list(values) == ["bias", "s", "second/mask", "second", "y"]
    assert [str(arg.name) for arg in values["second"].args] == ["s", "second/mask"]
    assert sum(dataflow.constant(arg) is not None for arg in values["second/mask"].args) == 1
    tvm.ir.assert_structural_equal(JoinMasks()(after), after)


@pytest.mark.parametrize(
    ("order", "how"),
    [("bb", {}), ("cc", {}), ("bc", {"read_twice": True}), ("bc", {"softmax": False})],
)
def test_other_sums_are_left_alone(order, how):
    before = scored(order, **how)
    tvm.ir.assert_structural_equal(JoinMasks()(before), before)
