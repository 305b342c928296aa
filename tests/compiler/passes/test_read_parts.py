"""ReadParts: slices that lie in one operand of a concat read that operand."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.passes.normalize.read_parts import ReadParts
from relay_int8.graph.dataflow import calls, operator
from tests.onnx_models import run_relax
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast
X = np.random.default_rng(0).normal(size=(2, 6, 5)).astype("float32")


def network(*slices, axis=1):
    """Return slices of a concat of twice x, three rows of x, and x."""
    net = NetworkWriter(X.shape)
    twice = net.emit("twice", relax.op.add(net.x, net.x))
    rows = net.emit("rows", relax.op.strided_slice(net.x, [axis], [1], [4]))
    y = net.emit("y", relax.op.concat([twice, rows, net.x], axis=axis))
    return net.module(
        *(
            net.emit(f"z{i}", relax.op.abs(net.emit(f"s{i}", relax.op.strided_slice(y, *bounds))))
            for i, bounds in enumerate(slices)
        )
    )


def kinds(mod):
    return [operator(call) for _, call in calls(mod["main"])]


@pytest.mark.parametrize(
    ("bounds", "axis", "wanted"),
    [
        (([1], [0], [6]), 1, ["add", "abs"]),
        (([1], [7], [9]), 1, ["strided_slice", "strided_slice", "abs"]),
        (([1], [9], [15]), 1, ["abs"]),
        (([-1], [5], [8]), -1, ["strided_slice", "abs"]),
        (([1, 2], [10, 0], [14, 5], [1, 2]), 1, ["strided_slice", "abs"]),
    ],
)
def test_a_part_of_one_operand(bounds, axis, wanted):
    mod = network(bounds, axis=axis)
    before = kinds(mod)
    after = ReadParts()(mod)
    assert kinds(after) == wanted
    assert kinds(mod) == before
    np.testing.assert_array_equal(run_relax(after, X)[0], run_relax(mod, X)[0])


@pytest.mark.parametrize(
    "bounds",
    [
        ([1], [5], [7]),
        ([1], [0], [6], [2]),
        ([1, 2], [0, 4], [6, 0], [1, -1]),
        ([2], [1], [3]),
    ],
    ids=["across", "step", "backwards", "other axis"],
)
def test_slices_that_stay(bounds):
    mod = network(bounds)
    assert kinds(ReadParts()(mod)) == kinds(mod)


def test_coordinates_that_are_scaled_in_place():
    """Of ``p[..., 0] /= 8; p[..., 1] /= 4`` no tensor remains that holds both ranges."""
    net = NetworkWriter((1, 3, 2))

    def column(x, i):
        return relax.op.strided_slice(x, [2], [i], [i + 1])

    first = net.emit("first", relax.op.divide(net.emit("x0", column(net.x, 0)), relax.const(8.0)))
    half = net.emit("half", relax.op.concat([first, net.emit("x1", column(net.x, 1))], axis=2))
    second = net.emit("second", relax.op.divide(net.emit("y1", column(half, 1)), relax.const(4.0)))
    both = net.emit("both", relax.op.concat([net.emit("y0", column(half, 0)), second], axis=2))
    mod = net.module(both)
    after = ReadParts()(mod)
    assert kinds(after) == ["strided_slice", "divide"] * 2 + ["concat"]
    points = np.array([[[8, 4], [2, 1], [0, 3]]], "float32")
    np.testing.assert_allclose(run_relax(after, points)[0], points / [8, 4], rtol=1e-6)
