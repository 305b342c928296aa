"""CanonicalizeRepeat: repeated rows and columns of an image are a nearest resize."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.passes.normalize.canonicalize_repeat import CanonicalizeRepeat
from relay_int8.compiler.pipeline import normalize
from relay_int8.graph import dataflow
from tests.mxnet_models import run_fast
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


def repeated(net: NetworkWriter, x: relax.Var, axis: int, count: int, *, like: int = 1):
    """Return an image whose rows or columns are repeated, as Keras writes it."""
    dims = list(dataflow.shape(x))
    cut = net.emit("cut", relax.op.expand_dims(x, axis + like))
    repeats = [count if place == axis + like else 1 for place in range(5)]
    tiled = net.emit("tiled", relax.op.tile(cut, repeats))
    dims[axis] *= count
    return net.emit("y", relax.op.reshape(tiled, dims))


def operators(mod):
    return [dataflow.operator(call) for _, call in dataflow.calls(mod["main"])]


def test_an_image_is_enlarged_by_resizes_alone():
    """Both axes; with the channels last, between operators that have them first."""
    net = NetworkWriter((1, 3, 4, 5))
    last = net.emit("last", relax.op.permute_dims(net.x, [0, 2, 3, 1]))
    grown = repeated(net, repeated(net, last, 1, 2), 2, 3)
    mod = net.module(net.emit("first", relax.op.permute_dims(grown, [0, 3, 1, 2])))
    after = normalize()(mod)
    assert set(operators(after)) == {"image.resize2d"}
    x = np.random.default_rng(0).normal(size=(1, 3, 4, 5)).astype("float32")
    np.testing.assert_array_equal(run_fast(after, x)[0], x.repeat(2, 2).repeat(3, 3))


@pytest.mark.parametrize("axis", [2, 3])
def test_channels_come_first_unless_something_says_otherwise(axis):
    net = NetworkWriter((1, 3, 4, 5))
    before = net.module(repeated(net, net.x, axis, 2))
    original = before.clone()
    after = CanonicalizeRepeat()(before)
    assert operators(after)[-1] == "image.resize2d"
    x = np.random.default_rng(0).normal(size=(1, 3, 4, 5)).astype("float32")
    np.testing.assert_array_equal(run_fast(after, x)[0], x.repeat(2, axis))
    assert before.script() == original.script()


def test_tiles_and_repeated_batches_stay():
    for axis, like in ((2, 0), (0, 1)):
        net = NetworkWriter((1, 3, 4, 5))
        before = net.module(repeated(net, net.x, axis, 2, like=like))
        assert CanonicalizeRepeat()(before).script() == before.script()
