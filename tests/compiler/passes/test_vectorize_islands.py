"""VectorizeIslands: elements of float tensors are in vectors and on threads, with the same bits."""

from collections.abc import Sequence

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from relay_int8.compiler.passes.lower.schedule_islands import ScheduleIslands
from relay_int8.compiler.passes.lower.vectorize_islands import VectorizeIslands
from tests.compiler.passes.float_islands import Size, island, network, run

pytestmark = pytest.mark.fast
op = relax.op
LARGE = (1, 16, 16, 96)


def affine(shape: tuple[Size, ...]) -> tvm.IRModule:
    """Return x * w + b."""
    w, b = (relax.const(np.linspace(-n, n, shape[-1], dtype="float32")) for n in (1, 3))
    return island(lambda x: op.add(op.multiply(x, w), b), shape)


def summed(shape: tuple[int, ...], axis: int) -> tvm.IRModule:
    """Return the sum of x along an axis."""
    return island(lambda x: op.sum(x, [axis]), shape)


def parallel_loops(mod: tvm.IRModule) -> int:
    loops: list[tvm.tirx.For] = []
    for func in mod.functions.values():
        if isinstance(func, tvm.tirx.PrimFunc):
            tvm_ffi.structural_walk(func.body, (tvm.tirx.For, loops.append))
    return sum(loop.kind == tvm.tirx.ForKind.PARALLEL for loop in loops)


def test_rows_are_in_parallel_with_the_same_bits():
    before = affine(LARGE)
    after = VectorizeIslands()(before)
    assert parallel_loops(before) == 0
    assert parallel_loops(after) == 2  # the product, and the sum
    x = np.random.default_rng(0).normal(size=LARGE).astype("float32")
    np.testing.assert_array_equal(run(after, x), run(before, x))


def test_small_tensors_are_for_one_thread():
    before = affine((1, 4, 4, 96))
    after = VectorizeIslands()(before)
    assert parallel_loops(after) == 0
    x = np.random.default_rng(0).normal(size=(1, 4, 4, 96)).astype("float32")
    np.testing.assert_array_equal(run(after, x), run(before, x))


def kernel(a: Sequence[int], b: Sequence[int], *, dtype: str = "float32") -> tvm.tirx.PrimFunc:
    """Return the kernel of a * b."""
    return VectorizeIslands()(island(op.multiply, a, b, dtype=dtype))["multiply"]


def loops_of(func: tvm.tirx.PrimFunc) -> list[tuple[int, int]]:
    """Return kind and extent of each loop, the outermost first."""
    loops: list[tvm.tirx.For] = []
    tvm_ffi.structural_walk(func.body, (tvm.tirx.For, loops.append))
    return [(int(loop.kind), int(loop.extent)) for loop in reversed(loops)]


SERIAL, PARALLEL, VECTORIZED = (
    int(kind)
    for kind in (tvm.tirx.ForKind.SERIAL, tvm.tirx.ForKind.PARALLEL, tvm.tirx.ForKind.VECTORIZED)
)


@pytest.mark.parametrize(
    ("a", "b", "loops"),
    [
        pytest.param((4, 8, 32), (4, 8, 32), [(SERIAL, 1024)], id="the same"),
        pytest.param((4, 8, 32), (1,), [(SERIAL, 1024)], id="one number"),
        pytest.param((4, 8, 32), (8, 32), [(SERIAL, 4), (SERIAL, 256)], id="an image"),
        pytest.param((4, 8, 128), (4, 8, 1), [(SERIAL, 32), (SERIAL, 128)], id="a number a row"),
        pytest.param(
            (4, 32, 1),
            (4, 1, 16),
            [(SERIAL, 4), (SERIAL, 32), (VECTORIZED, 16)],
            id="both broadcast",
        ),
        pytest.param(
            (64, 64, 1),
            (64, 1, 16),
            [(PARALLEL, 64), (SERIAL, 64), (VECTORIZED, 16)],
            id="both broadcast, large",
        ),
    ],
)
def test_axes_that_lie_side_by_side_are_one_loop(
    a: tuple[int, ...], b: tuple[int, ...], loops: list[tuple[int, int]]
):
    assert loops_of(kernel(a, b)) == loops


def test_types_that_vectors_do_not_hold_are_left_to_llvm():
    assert VECTORIZED not in dict(loops_of(kernel((4, 32, 1), (4, 1, 16), dtype="int64")))


def test_an_open_batch_stays():
    assert parallel_loops(VectorizeIslands()(affine((tvm.tirx.Var("n", "int64"), *LARGE[1:])))) == 0


def test_reductions_stay():
    assert parallel_loops(VectorizeIslands()(summed(LARGE, 3))) == 0


def test_sums_that_are_scheduled_row_by_row_stay():
    """Branches of an image are added so (SKNet, ResNeSt): zeros stand in the loops of the sum."""
    before = summed((1, 2, 16, 16, 96), 1)
    after = tvm.transform.Sequential([ScheduleIslands(), VectorizeIslands()])(before)
    assert parallel_loops(after) == 0
    x = np.random.default_rng(0).normal(size=(1, 2, 16, 16, 96)).astype("float32")
    np.testing.assert_array_equal(run(after, x), run(before, x))


def test_calls_of_library_functions_stay():
    mod = network(lambda x: op.topk(x, 3, ret_type="values"), (4, 8192))
    assert parallel_loops(VectorizeIslands()(relax.transform.LegalizeOps()(mod))) == 0
