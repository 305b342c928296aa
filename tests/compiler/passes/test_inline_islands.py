"""InlineIslands: chains of float operators are one pass over memory, with the same bits."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from relay_int8.compiler.passes.lower.inline_islands import InlineIslands
from tests.compiler.passes.float_islands import island, run

pytestmark = pytest.mark.fast
op = relax.op
Tensor = relax.Expr


def softplus(x: Tensor) -> Tensor:
    return op.log(op.add(op.exp(op.negative(op.abs(x))), relax.const(1.0)))


SHAPE = (2, 3, 40)


def stores(mod: tvm.IRModule) -> int:
    """Return how many tensors kernels write."""
    found: list[tvm.tirx.BufferStore] = []
    for func in mod.functions.values():
        if isinstance(func, tvm.tirx.PrimFunc):
            tvm_ffi.structural_walk(func.body, (tvm.tirx.BufferStore, found.append))
    return len(found)


WEIGHTS = relax.const(np.linspace(-2, 2, 40, dtype="float32"))
COLUMN = relax.const(np.linspace(-2, 2, 3, dtype="float32").reshape(3, 1))


@pytest.mark.parametrize(
    ("function", "before", "after"),
    [
        pytest.param(softplus, 5, 1, id="chain"),
        pytest.param(
            lambda x: op.add(op.multiply(x, WEIGHTS), COLUMN), 2, 2, id="a product in a sum"
        ),
        pytest.param(
            lambda x: op.subtract(x, op.multiply(x, WEIGHTS)), 2, 2, id="a product in a difference"
        ),
        pytest.param(lambda x: op.exp(op.multiply(x, WEIGHTS)), 2, 1, id="a product in a function"),
        pytest.param(
            lambda x: op.multiply(op.add(x, WEIGHTS), COLUMN), 2, 1, id="a sum in a product"
        ),
    ],
)
def test_steps_are_brought_together(function: Callable[[Tensor], Tensor], before: int, after: int):
    mod = island(function, SHAPE)
    assert stores(mod) == before
    inlined = InlineIslands()(mod)
    assert stores(inlined) == after
    x = np.random.default_rng(0).normal(size=SHAPE).astype("float32")
    np.testing.assert_array_equal(run(inlined, x), run(mod, x))


def test_what_is_read_for_many_elements_is_computed_once():
    """An exponential of a column is not computed for each element of its row."""
    mod = island(lambda x: op.multiply(x, op.exp(op.sum(x, [2], keepdims=True))), SHAPE)
    assert stores(InlineIslands()(mod)) == stores(mod)


def test_what_is_read_twice_is_not_copied():
    def twice(x: Tensor) -> Tensor:
        e = op.exp(x)
        return op.multiply(e, e)

    mod = island(twice, SHAPE)
    assert stores(InlineIslands()(mod)) == stores(mod)


def test_sums_are_not_brought_to_what_reads_them():
    """A sum has as many steps here as its reader has elements; TVM's schedules refuse to copy it."""
    mod = island(op.nn.log_softmax, SHAPE)
    assert stores(InlineIslands()(mod)) == stores(mod)
