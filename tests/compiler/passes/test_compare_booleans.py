"""Comparisons of booleans are computed, by a library too."""

import numpy as np
import tvm
from tvm import relax

from relay_int8.compiler.passes.lower.compare_booleans import COMPARISONS, CompareBooleans
from relay_int8.graph.dataflow import FunctionWriter, calls, dtype, operator
from tests.onnx_models import run_relax

X = np.array([-2.0, -1.0, 0.0, 1.0, 2.0], "float32")


def comparisons() -> tvm.IRModule:
    """Return a module that compares x < 1 with x > 0 in every way, as numbers."""
    x, writer = relax.Var("x", relax.TensorType(X.shape, "float32")), FunctionWriter()
    below = writer.emit("below", relax.op.less(x, relax.const(1, "float32")))
    above = writer.emit("above", relax.op.greater(x, relax.const(0, "float32")))
    outputs = []
    for name in COMPARISONS:
        compared = writer.emit(name, getattr(relax.op, name)(below, above))
        outputs.append(writer.emit(f"{name}/number", relax.op.astype(compared, "float32")))
    return writer.finish([x], outputs)


def operands(mod: tvm.IRModule) -> list[str]:
    """Return of what the operands of each comparison are."""
    found = (value for _, value in calls(mod["main"]) if operator(value) in COMPARISONS)
    return [dtype(value.args[0]) for value in found]


def test_booleans_compare_as_in_numpy():
    mod = comparisons()
    after = CompareBooleans()(mod)
    assert operands(after) == ["float32"] * 2 + ["int8"] * len(COMPARISONS)
    assert operands(mod) == ["float32"] * 2 + ["bool"] * len(COMPARISONS)
    for name, y in zip(COMPARISONS, run_relax(after, X), strict=True):
        assert (y == getattr(np, name)(X < 1, X > 0)).all(), name
