"""Arithmetic of floats becomes kernels that serve all sizes; what these do not take stays."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.lower.lower_arithmetic import LowerArithmetic
from relay_int8.graph import dataflow
from relay_int8.graph.spec_calls import operands, spec_of
from schedules.reference.kernels import reference
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast
SCALAR = relax.const(np.float32(3))
CHANNELS = relax.const(np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1))
X = np.random.default_rng(0).normal(size=(1, 4, 3, 5)).astype(np.float32)

LOWERED = {
    "add": (lambda x: relax.op.add(x, SCALAR), X + 3),
    "swapped": (lambda x: relax.op.subtract(SCALAR, x), 3 - X),
    "quotient": (lambda x: relax.op.divide(SCALAR, x), 3 / X),
    "channels": (lambda x: relax.op.multiply(CHANNELS, x), X * np.arange(4.0).reshape(1, 4, 1, 1)),
    "itself": (lambda x: relax.op.maximum(x, x), X),
    "negative": (lambda x: relax.op.negative(x), -X),
    "clip": (lambda x: relax.op.clip(x, -0.5, 0.25), np.clip(X, -0.5, 0.25)),
}
KEPT = {
    "both_ways": lambda x: relax.op.add(x, relax.const(np.ones((2, 4, 3, 5), np.float32))),
    "rows": lambda x: relax.op.add(x, relax.const(np.ones((3, 1), np.float32))),
    "other_function": lambda x: relax.op.exp(x),
    "comparison": lambda x: relax.op.less(x, SCALAR),
}


def network(make) -> tvm.IRModule:
    net = NetworkWriter(X.shape)
    return net.module(net.emit("y", make(net.x)))


@pytest.mark.parametrize("name", LOWERED)
def test_numbers_are_those_of_numpy(name):
    make, expected = LOWERED[name]
    mod = network(make)
    original = mod.clone()
    after = LowerArithmetic()(mod)
    tvm.ir.assert_structural_equal(mod, original)
    ((var, value),) = dataflow.calls(after["main"])
    spec = spec_of(value)
    assert var.name == "y"
    assert spec is not None and spec.kind == "arithmetic"
    tensors, params = operands(value, spec)
    arrays = [X if (array := dataflow.constant(tensor)) is None else array for tensor in tensors]
    y = reference(spec, dict(zip(spec.tensors, arrays, strict=True)), params)
    np.testing.assert_array_equal(y, expected.astype(np.float32))


@pytest.mark.parametrize("name", KEPT)
def test_what_is_left_to_tvm(name):
    mod = network(KEPT[name])
    tvm.ir.assert_structural_equal(LowerArithmetic()(mod), mod)
