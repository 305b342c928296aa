"""Branches by a computed condition: results are selected, and unlike results are refused."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.frontend.branches import select_branch
from relay_int8.graph.dataflow import FunctionWriter
from tests.mxnet_models import run_fast

pytestmark = pytest.mark.fast


def var(name: str, shape: tuple[int, ...], dtype: str = "float32") -> relax.Var:
    return relax.Var(name, relax.TensorType(shape, dtype))


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64", "bool"])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_results_of_one_branch_are_selected(dtype: str, rank: int):
    condition, x = var("condition", (1,) * rank, "bool"), var("x", (2, 3), dtype)
    other = relax.const(np.ones((2, 3), dtype), dtype)
    scalar, one = (relax.const(np.array(number, dtype), dtype) for number in (0, 1))
    writer = FunctionWriter()
    chosen = select_branch(
        lambda value: writer.emit("scalar", value), condition, [x, x, scalar], [other, x, one]
    )
    assert chosen[1] is x
    bound = [writer.emit("chosen", value) for value in (chosen[0], chosen[2])]
    mod = writer.finish([condition, x], bound)
    given = np.arange(6).reshape(2, 3).astype(dtype)
    for goes in (True, False):
        y, number = run_fast(mod, np.full((1,) * rank, goes), given)
        np.testing.assert_array_equal(y, given if goes else np.ones((2, 3), dtype))
        assert number.shape == () and number == (0 if goes else 1)


@pytest.mark.parametrize(
    ("condition", "then", "otherwise", "message"),
    [
        ((), [(2, 3)], [(2, 4)], r"result 0 is \[2, 3\] float32 or \[2, 4\] float32"),
        ((), [(2, 3)], [], "of 1 results or of 0"),
        ((2,), [(2, 3)], [(2, 3)], r"a condition of \[2\] bool, which is not one truth value"),
    ],
)
def test_unlike_branches_are_refused(condition, then, otherwise, message):
    sides = [[var("a", shape) for shape in side] for side in (then, otherwise)]
    with pytest.raises(NotImplementedError, match=message):
        select_branch(lambda value: value, var("condition", condition, "bool"), *sides)
