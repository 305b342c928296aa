"""Maxima and minima of floats: NumPy's, of infinities too."""

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.target import Target

from relay_int8.compiler.extremes import EXTREMES
from relay_int8.compiler.pipeline import island_passes
from tests.onnx_models import run_relax

pytestmark = pytest.mark.fast

ROWS = np.array([[-np.inf] * 3, [1, -np.inf, 2], [np.inf] * 3, [-3e38, -1, -2]], "float32")


def reduced(name, x, axes, keepdims):
    """Return what a network of one reduction gives, lowered as the compiler does."""
    builder = relax.BlockBuilder()
    var = relax.Var("x", relax.TensorType(x.shape, str(x.dtype)))
    with builder.function("main", [var]):
        call = getattr(relax.op, name)(var, axis=axes, keepdims=keepdims)
        builder.emit_func_output(builder.emit(call))
    mod = relax.transform.LegalizeOps(EXTREMES)(builder.finalize())
    return run_relax(mod, x)[0]


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", [None, [0], [-1], [0, 1], []])
def test_reductions_are_numpys(name, axes, keepdims):
    wanted = getattr(np, name)(ROWS, axis=None if axes is None else tuple(axes), keepdims=keepdims)
    np.testing.assert_array_equal(reduced(name, ROWS, axes, keepdims), wanted)


@pytest.mark.parametrize("name", ["max", "min"])
def test_integers_begin_with_their_last(name):
    x = np.array([[3, -7], [127, -128]], "int8")
    np.testing.assert_array_equal(reduced(name, x, [1], False), getattr(x, name)(axis=1))


def test_the_compiler_takes_them():
    builder = relax.BlockBuilder()
    var = relax.Var("x", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [var]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.max(var, axis=1))
        builder.emit_func_output(result)
    with Target({"kind": "llvm"}):
        mod = tvm.transform.Sequential(island_passes())(builder.finalize())
    assert "inf" in mod.script()
