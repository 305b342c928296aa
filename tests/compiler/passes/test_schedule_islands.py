"""ScheduleIslands: sums over all but the last axis read memory in its order, with the same bits."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from relay_int8.compiler.passes.lower.schedule_islands import ScheduleIslands
from tests.compiler.passes.float_islands import island, run

pytestmark = pytest.mark.fast


def summed(axes: list[int], shape: tuple[int, ...] = (2, 5, 7, 24)) -> tvm.IRModule:
    return island(lambda x: relax.op.sum(x, axes), shape)


def test_sums_over_an_image_are_by_rows():
    before = summed([1, 2])
    after = ScheduleIslands()(before)
    assert not equal(before, after)
    x = np.random.default_rng(0).normal(size=(2, 5, 7, 24)).astype("float32")
    np.testing.assert_array_equal(run(after, x), run(before, x))


@pytest.mark.parametrize(
    ("axes", "shape", "lanes"),
    [
        pytest.param([2, 3], (2, 5, 8, 24), 16, id="images"),
        pytest.param([2, 3], (2, 5, 6, 6), 4, id="images of 36 pixels"),
        pytest.param([3], (2, 5, 7, 64), 16, id="rows"),
        pytest.param([0, 1, 2, 3], (2, 5, 7, 24), 16, id="everything"),
    ],
)
def test_sums_of_whole_rows_are_partial_sums(axes: list[int], shape: tuple[int, ...], lanes: int):
    after = ScheduleIslands()(summed(axes, shape))
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    steps = x.reshape(*(shape[: axes[0]]), -1, lanes)
    parts = np.zeros_like(steps[..., 0, :])
    for i in range(steps.shape[-2]):
        parts += steps[..., i, :]
    wanted = np.zeros_like(parts[..., 0])
    for lane in range(lanes):
        wanted += parts[..., lane]
    np.testing.assert_array_equal(run(after, x), wanted)


@pytest.mark.parametrize(
    ("axes", "shape"),
    [
        pytest.param([3], (2, 5, 7, 24), id="too few steps"),
        pytest.param([2, 3], (2, 5, 7, 7), id="no lanes"),
        pytest.param([1, 3], (2, 5, 7, 64), id="not side by side"),
    ],
)
def test_other_sums_stay(axes: list[int], shape: tuple[int, ...]):
    mod = summed(axes, shape)
    assert equal(mod, ScheduleIslands()(mod))


def test_positions_stay():
    mod = ScheduleIslands()(island(lambda x: relax.op.argmax(x, 1), (4, 64)))
    values = np.random.default_rng(0).normal(size=(4, 64)).astype("float32")
    np.testing.assert_array_equal(run(mod, values), values.argmax(1))


def test_short_rows_stay():
    mod = summed([1, 2], (2, 5, 7, 3))
    assert equal(mod, ScheduleIslands()(mod))


def equal(a: tvm.IRModule, b: tvm.IRModule) -> bool:
    return bool(tvm_ffi.structural_equal(a, b))
