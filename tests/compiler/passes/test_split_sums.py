"""SplitSums: sums over branches of an image become additions."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.passes.normalize.split_sums import SplitSums
from relay_int8.graph import dataflow
from relay_int8.graph.declined import collecting_declined
from tests.mxnet_models import run_fast
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


def stacked(count=2, axes=(1,), keepdims=False):
    """Return branches that are stacked, weighed and summed, as in SKNet."""
    net = NetworkWriter((1, 3, 4, 5))
    branches = [net.emit(f"b{i}", relax.op.sin(net.x)) for i in range(count)]
    views = [
        net.emit(f"v{i}", relax.op.reshape(b, (1, 1, 3, 4, 5))) for i, b in enumerate(branches)
    ]
    stack = net.emit("stack", relax.op.concat(views, axis=1))
    weighed = net.emit("weighed", relax.op.multiply(stack, net.constant(1, count, 3, 1, 1)))
    return net.module(net.emit("y", relax.op.sum(weighed, list(axes), keepdims)))


def sliced():
    """Return groups of channels that are summed, once weighed by one factor, as in ResNeSt."""
    net = NetworkWriter((1, 6, 4, 5))
    groups = net.emit("groups", relax.op.reshape(net.x, (1, 2, 3, 4, 5)))
    gate = net.emit("gate", relax.op.mean(groups, [1, 3, 4], keepdims=True))
    weighed = net.emit("weighed", relax.op.multiply(groups, gate))
    sums = (net.emit(name, relax.op.sum(x, [1])) for name, x in (("y", groups), ("z", weighed)))
    return net.module(*sums)


def strided():
    """Return channels whose neighbours are summed, as in FishNet."""
    net = NetworkWriter((1, 6, 4, 5))
    groups = net.emit("groups", relax.op.reshape(net.x, (1, 3, 2, 4, 5)))
    return net.module(net.emit("y", relax.op.sum(groups, [2])))


def means():
    """Return the mean of branches that are stacked in front, as in FractalNet."""
    net = NetworkWriter((1, 3, 4, 5))
    branches = [net.emit("a", relax.op.sin(net.x)), net.emit("b", relax.op.cos(net.x)), net.x]
    views = [net.emit("v", relax.op.reshape(b, (1, 1, 3, 4, 5))) for b in branches]
    stack = net.emit("stack", relax.op.concat(views, axis=0))
    return net.module(net.emit("y", relax.op.mean(stack, [0])))


def scaled():
    """Return groups of channels that a factor of fewer axes scales."""
    net = NetworkWriter((1, 2, 3, 4, 5))
    product = net.emit("product", relax.op.multiply(net.x, net.constant(3, 1, 1)))
    return net.module(net.emit("y", relax.op.sum(product, [1])))


def images():
    net = NetworkWriter((2, 3, 1, 4, 5))
    return net.module(net.emit("y", relax.op.sum(net.x, [0])))


def read_twice():
    net = NetworkWriter((1, 2, 3, 4, 5))
    product = net.emit("product", relax.op.multiply(net.x, net.constant(1, 2, 3, 4, 5)))
    return net.module(product, net.emit("y", relax.op.sum(product, [1])))


@pytest.mark.parametrize(
    ("before", "written"),
    [
        (stacked(), {"sin": 2, "multiply": 2, "add": 1}),
        (stacked(4, axes=(-4,)), {"sin": 4, "multiply": 4, "add": 3}),
        (sliced(), {"strided_slice": 4, "multiply": 2, "add": 2}),
        (strided(), {"strided_slice": 2, "add": 1}),
        (means(), {"add": 2, "multiply": 1, "concat": 0, "mean": 0}),
        (scaled(), {"multiply": 1, "strided_slice": 2, "add": 1}),
        (read_twice(), {"multiply": 1, "strided_slice": 2, "add": 1}),
    ],
    ids=("stacked", "four", "sliced", "strided", "means", "scaled", "read twice"),
)
def test_branches_are_added(before, written):
    original = before.clone()
    after = SplitSums()(before)
    found = [dataflow.operator(value) for _, value in dataflow.calls(after["main"])]
    assert "sum" not in found and {name: found.count(name) for name in written} == written
    names = [var.name for var in dataflow.results(before["main"])]
    assert [var.name for var in dataflow.results(after["main"])] == names
    x = np.random.default_rng(0).normal(size=dataflow.shape(before["main"].params[0]))
    pairs = zip(*(run_fast(mod, x.astype("float32")) for mod in (after, before)), strict=True)
    for y, wanted in pairs:
        np.testing.assert_allclose(y, wanted, rtol=1e-6, atol=1e-6)
    assert before.script() == original.script()


@pytest.mark.parametrize(
    "options", [{"axes": (3,)}, {"axes": (1, 2)}, {"keepdims": True}, {"count": 5}], ids=str
)
def test_other_sums_stay(options):
    before = stacked(**options)
    with collecting_declined() as declined:
        assert SplitSums()(before).script() == before.script()
    many = ["it sums 5 branches, not 2 to 4"] if options == {"count": 5} else []
    assert [each.reason for each in declined] == many


def test_sums_over_images_stay():
    before = images()
    assert SplitSums()(before).script() == before.script()
