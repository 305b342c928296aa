"""ParallelIslands: rows of large float tensors are in parallel, with the same bits."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.target import Target

from relay_int8.compiler.passes.lower.parallel_islands import ParallelIslands
from relay_int8.compiler.passes.lower.schedule_islands import ScheduleIslands

pytestmark = pytest.mark.fast
GENERIC = Target({"kind": "llvm", "mcpu": "x86-64"})
LARGE = (1, 16, 16, 96)


def island(shape: tuple[int | tvm.tirx.Var, ...], *, reduced: int | None = None) -> tvm.IRModule:
    """Return x * w + b in one kernel, or the sum of x along an axis."""
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    w, b = (relax.const(np.linspace(-n, n, shape[-1], dtype="float32")) for n in (1, 3))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.add(builder.emit(relax.op.multiply(x, w)), b))
            y = builder.emit_output(y if reduced is None else relax.op.sum(x, [reduced]))
        builder.emit_func_output(y)
    passes = [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
    ]
    mod: tvm.IRModule = tvm.transform.Sequential(passes)(builder.get())
    return mod


def parallel_loops(mod: tvm.IRModule) -> int:
    loops: list[tvm.tirx.For] = []
    for func in mod.functions.values():
        if isinstance(func, tvm.tirx.PrimFunc):
            tvm_ffi.structural_walk(func.body, (tvm.tirx.For, loops.append))
    return sum(loop.kind == tvm.tirx.ForKind.PARALLEL for loop in loops)


def run(mod: tvm.IRModule, x: np.ndarray) -> np.ndarray:
    built = tvm.compile(mod, target=GENERIC)
    y: np.ndarray = relax.VirtualMachine(built, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
    return y


def test_rows_are_in_parallel_with_the_same_bits():
    before = island(LARGE)
    after = ParallelIslands()(before)
    assert parallel_loops(before) == 0
    assert parallel_loops(after) == 2  # the product, and the sum
    x = np.random.default_rng(0).normal(size=LARGE).astype("float32")
    np.testing.assert_array_equal(run(after, x), run(before, x))


@pytest.mark.parametrize("shape", [(1, 4, 4, 96), (1, 128, 128, 4), (1, 1, 1, 32768)])
def test_what_threads_do_not_pay_for_stays(shape: tuple[int, ...]):
    assert parallel_loops(ParallelIslands()(island(shape))) == 0


def test_an_open_batch_stays():
    assert parallel_loops(ParallelIslands()(island((tvm.tirx.Var("n", "int64"), *LARGE[1:])))) == 0


def test_reductions_stay():
    assert parallel_loops(ParallelIslands()(island(LARGE, reduced=3))) == 0


def test_sums_that_are_scheduled_row_by_row_stay():
    """Branches of an image are added so (SKNet, ResNeSt): zeros stand in the loops of the sum."""
    before = island((1, 2, 16, 16, 96), reduced=1)
    after = tvm.transform.Sequential([ScheduleIslands(), ParallelIslands()])(before)
    assert parallel_loops(after) == 0
    x = np.random.default_rng(0).normal(size=(1, 2, 16, 16, 96)).astype("float32")
    np.testing.assert_array_equal(run(after, x), run(before, x))


def test_calls_of_library_functions_stay():
    x = relax.Var("x", relax.TensorType((4, 8192), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(relax.op.topk(x, 3, ret_type="values"))
        builder.emit_func_output(y)
    mod = relax.transform.LegalizeOps()(builder.get())
    assert parallel_loops(ParallelIslands()(mod)) == 0
