"""Gathers at constant neighbouring positions are slices, and say the same."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.frontend.neighbours import sliced_neighbours
from relay_int8.graph.dataflow import calls, operator
from tests.mxnet_models import run_fast
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("axis", "positions"),
    [
        (1, [4]),
        (2, [0, 1, 2]),
        (1, [[1, 2], [3, 4]]),
        (0, 1),
        (1, [0, 1, 2, 3, 4, 5]),
        (1, [4, 5, 0, 1, 2, 3]),
        (2, [1, 1]),
    ],
    ids=str,
)
def test_neighbours_are_a_slice(axis, positions):
    net = NetworkWriter((2, 6, 3))
    indices = relax.const(np.array(positions), "int64")
    part = sliced_neighbours(lambda value: net.emit("part", value), net.x, indices, axis)
    mod = net.module(net.emit("y", relax.op.negative(net.emit("z", part))))
    assert "take" not in [operator(value) for _, value in calls(mod["main"])]
    x = np.random.default_rng(0).normal(size=(2, 6, 3)).astype("float32")
    np.testing.assert_array_equal(run_fast(mod, x)[0], -np.take(x, positions, axis))


@pytest.mark.parametrize("positions", [[2, 1, 0], [0, 2, 4]], ids=str)
def test_other_positions_are_none(positions):
    x = relax.Var("x", relax.TensorType((2, 6, 3), "float32"))
    indices = relax.const(np.array(positions), "int64")
    assert sliced_neighbours(lambda value: value, x, indices, 1) is None
    computed = relax.Var("i", relax.TensorType((2,), "int64"))
    assert sliced_neighbours(lambda value: value, x, computed, 1) is None
