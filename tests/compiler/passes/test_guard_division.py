"""Integers are divided by any number, without SIGFPE."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.lower.guard_division import QUOTIENTS, RESTS, GuardDivision
from relay_int8.graph.dataflow import FunctionWriter, calls, operator
from tests.onnx_models import run_relax

KINDS = ("int8", "int32", "int64", "uint8")


def divisions(kind: str, divisor: np.ndarray | None = None) -> tvm.IRModule:
    """Return a module that divides x by d, or by a constant, in every way."""
    extent = 6 if divisor is None else len(divisor)
    x, d = (relax.Var(name, relax.TensorType((extent,), kind)) for name in "xd")
    writer = FunctionWriter()
    by = d if divisor is None else relax.const(divisor.astype(kind), kind)
    outputs = [writer.emit(name, getattr(relax.op, name)(x, by)) for name in (*QUOTIENTS, *RESTS)]
    return writer.finish([x, d] if divisor is None else [x], outputs)


@pytest.mark.parametrize("kind", KINDS)
def test_all_divisors_give_what_numpy_gives(kind):
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    x = np.array([low, low, high, 7, 0, 9]).astype(kind)
    d = np.array([-1 if low else 1, 0, 0, 2, 0, 2]).astype(kind)
    with np.errstate(all="ignore"):
        expected = [np.floor_divide(x, d), np.floor_divide(x, d), np.mod(x, d), np.mod(x, d)]
    found = run_relax(GuardDivision()(divisions(kind)), x, d)
    for name, y, reference in zip((*QUOTIENTS, *RESTS), found, expected, strict=True):
        assert (y == reference).all(), name


@pytest.mark.parametrize(("divisor", "count"), [([2, -3], 4), ([2, 0], 12), ([-1, 4], 12)])
def test_constant_divisors_that_never_trap_stay(divisor, count):
    mod = GuardDivision()(divisions("int32", np.array(divisor)))
    guarded = [operator(value) for _, value in calls(mod["main"])]
    assert (len(guarded) == 4) == (count == 4)
    assert ("where" in guarded) == (count != 4)
