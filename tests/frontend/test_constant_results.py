"""Results that no input goes into are results all the same."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.api.float_network import compiled_network
from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.constant_results import keep_constant_results
from relay_int8.graph.dataflow import FunctionWriter, calls, results

pytestmark = pytest.mark.fast
X = np.array([[1, -2, np.nan]], "float32")
LENGTHS = np.array([40, 7])
MASK = np.array([[True, False, True]])


def written(with_lengths: bool):
    """Return a module that gives relu(x), and lengths as an encoder of sound gives them, and a mask."""
    x = relax.Var("x", relax.TensorType(X.shape, "float32"))
    writer = FunctionWriter()
    outputs = [writer.emit("y", relax.op.nn.relu(x))]
    if with_lengths:
        outputs.append(writer.emit("lengths", relax.const(LENGTHS, "int64")))
        outputs.append(writer.emit("mask", relax.const(MASK, "bool")))
    return writer.finish([x], outputs)


def test_a_constant_result_stays_a_result():
    mod = keep_constant_results(written(with_lengths=True))
    assert [str(var.name) for var in results(mod["main"])] == ["y", "lengths", "mask"]
    bound = [value for _, value in calls(mod["main"])]  # each is compared with the float network
    assert not any(isinstance(value, tvm.ir.GenericConst) for value in bound)
    run = compiled_network(normalize()(mod))
    found = run({"x": X})
    np.testing.assert_array_equal(found["lengths"], LENGTHS)
    np.testing.assert_array_equal(found["mask"], MASK)
    assert found["mask"].dtype == bool


def test_a_module_without_them_is_left_alone():
    mod = written(with_lengths=False)
    assert keep_constant_results(mod) is mod
