"""ScheduleIslands: sums over all but the last axis read memory in its order, with the same bits."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.target import Target

from relay_int8.compiler.passes.lower.schedule_islands import ScheduleIslands

pytestmark = pytest.mark.fast
GENERIC = Target({"kind": "llvm", "mcpu": "x86-64"})


def summed(axes: list[int], shape: tuple[int, ...] = (2, 5, 7, 24)) -> tvm.IRModule:
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(relax.op.sum(x, axes))
        builder.emit_func_output(y)
    passes = [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern()]
    mod: tvm.IRModule = tvm.transform.Sequential(passes)(builder.get())
    return mod


def run(mod: tvm.IRModule, x: np.ndarray) -> np.ndarray:
    built = tvm.compile(mod, target=GENERIC)
    y: np.ndarray = relax.VirtualMachine(built, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
    return y


def test_sums_over_an_image_are_by_rows():
    before = summed([1, 2])
    after = ScheduleIslands()(before)
    assert not equal(before, after)
    x = np.random.default_rng(0).normal(size=(2, 5, 7, 24)).astype("float32")
    np.testing.assert_array_equal(run(after, x), run(before, x))


@pytest.mark.parametrize("axes", [[3], [0, 1, 2, 3]])
def test_other_sums_stay(axes: list[int]):
    mod = summed(axes)
    assert equal(mod, ScheduleIslands()(mod))


def test_short_rows_stay():
    mod = summed([1, 2], (2, 5, 7, 3))
    assert equal(mod, ScheduleIslands()(mod))


def equal(a: tvm.IRModule, b: tvm.IRModule) -> bool:
    return bool(tvm_ffi.structural_equal(a, b))
