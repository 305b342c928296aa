"""Parts of a tensor written over: boxes between slices, or into pads; other positions by choice."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.frontend.overwriting import overwritten
from relay_int8.graph.dataflow import calls, operator
from tests.mxnet_models import run_fast
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast
DIMS = (2, 5, 4)
POSITIONS = np.arange(40).reshape(DIMS)


def written(positions, canvas=None):
    """A module that writes over its input, or over ``canvas``, and what NumPy makes of both."""
    net = NetworkWriter(DIMS)
    x = np.random.default_rng(0).normal(size=DIMS).astype("float32")
    whole = net.x if canvas is None else relax.const(canvas)
    flat = net.emit("flat", relax.op.reshape(net.x, (40,)))
    places = relax.const(np.arange(positions.size).reshape(positions.shape), "int64")
    value = net.emit("value", relax.op.negative(net.emit("taken", relax.op.take(flat, places, 0))))
    y = overwritten(net.emit, whole, positions, value)
    mod = net.module(net.emit("y", relax.op.nn.relu(net.emit("z", y))))
    expected = (x if canvas is None else canvas).copy()
    expected.reshape(-1)[positions] = -x.reshape(-1)[: positions.size].reshape(positions.shape)
    np.testing.assert_array_equal(run_fast(mod, x)[0], np.maximum(expected, 0))
    return {operator(call) for _, call in calls(mod["main"])}


BOXES = [
    POSITIONS[:, 1:3],
    POSITIONS[:, :, 3:],
    POSITIONS[1, :2],
    POSITIONS[1:, 2:4, 1:3],
    POSITIONS[0, 3, 2],
]


@pytest.mark.parametrize("positions", BOXES)
def test_a_box_is_joined_with_slices(positions):
    assert {"concat", "strided_slice"} <= written(positions)


@pytest.mark.parametrize("positions", BOXES)
def test_a_box_of_one_number_is_a_pad(positions):
    found = written(positions, np.full(DIMS, 0.5, "float32"))
    assert "nn.pad" in found
    assert "concat" not in found


@pytest.mark.parametrize(
    "positions", [POSITIONS[:, ::2], POSITIONS[:, ::-1]], ids=["even", "turned"]
)
def test_other_positions_are_chosen_from_both(positions):
    assert "nn.pad" not in written(positions)
    assert "strided_slice" not in written(positions)
