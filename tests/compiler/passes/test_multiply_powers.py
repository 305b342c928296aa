"""Small whole powers are products, others stay."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.compiler.passes.lower.multiply_powers import MultiplyPowers
from relay_int8.graph.dataflow import FunctionWriter, calls, operator
from tests.onnx_models import run_relax

X = np.array([-2.0, -0.5, 0.0, 1.5], "float32")


def powers(*exponents: float) -> tvm.IRModule:
    """Return a module that raises x to each of ``exponents``."""
    x, writer = relax.Var("x", relax.TensorType(X.shape, "float32")), FunctionWriter()
    constants = [relax.const(np.array(exponent, "float32")) for exponent in exponents]
    return writer.finish(
        [x], [writer.emit(f"y{i}", relax.op.power(x, c)) for i, c in enumerate(constants)]
    )


@pytest.mark.fast
def test_small_powers_are_products():
    mod = MultiplyPowers()(powers(2, 3, 4))
    assert {operator(value) for _, value in calls(mod["main"])} == {"multiply"}
    for exponent, y in zip((2, 3, 4), run_relax(mod, X), strict=True):
        np.testing.assert_allclose(y, X**exponent, rtol=1e-6)


@pytest.mark.fast
def test_other_powers_stay(expect_rewrite):
    mod = powers(0.5, -1, 2.5, 7)
    expect_rewrite(MultiplyPowers(), mod, mod)
