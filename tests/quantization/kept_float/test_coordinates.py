"""Small products of coordinates stay in float: which do, and what does not read positions."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.pipeline import normalized
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.kept_float.coordinates import MOST, REASON
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


def transformer(read, *, hidden=8):
    """Return a convolution, a matrix from its means, places turned by it, and what reads these."""
    net = NetworkWriter((1, 3, 6, 6))
    x = net.relu("x1", net.conv("x1/conv", net.x, hidden, 3))
    mean = net.emit("mean", relax.op.mean(x, [2, 3]))
    matrix = net.emit("head", relax.op.matmul(mean, net.constant(hidden, 6)))
    matrix = net.emit("matrix", relax.op.reshape(matrix, (1, 3, 2)))
    places = net.emit("places", relax.op.matmul(net.constant(1, 36, 3), matrix))
    return net.module(net.conv("y", read(net, places), 4, 1))


def sampled(net, places):
    """Return the network's input where the places are."""
    grid = net.emit("grid", relax.op.reshape(places, (1, 6, 6, 2)))
    grid = net.emit("grid/first", relax.op.permute_dims(grid, [0, 3, 1, 2]))
    return net.emit("sampled", relax.op.image.grid_sample(net.x, grid))


def gathered(net, places):
    """Return rows of a constant whose numbers the places are."""
    scaled = net.emit("scaled", relax.op.multiply(places, relax.const(np.float32(3.0))))
    floor = net.emit("floor", relax.op.floor(scaled))
    numbers = net.emit("numbers", relax.op.astype(floor, "int64"))
    row = net.emit("row", relax.op.reshape(numbers, (72,)))
    rows = net.emit("rows", relax.op.take(net.constant(16, 3), row, axis=0, mode="clip"))
    return net.emit("image", relax.op.reshape(rows, (1, 3, 8, 9)))


def as_image(net, places):
    return net.emit("image", relax.op.reshape(places, (1, 2, 6, 6)))


def kept(mod, config=None):
    plan = annotate(normalized(mod)[0], config or QuantConfig())
    return {layer.root for layer in plan.layers if layer.reason == REASON}


@pytest.mark.parametrize("read", [sampled, gathered])
def test_products_of_positions_stay_in_float(read):
    assert kept(transformer(read)) == {"head", "places/product"}


def test_layers_of_many_products_are_integers():
    assert kept(transformer(sampled, hidden=MOST + 1)) == {"places/product"}


def test_so_are_products_that_a_layer_reads():
    assert kept(transformer(as_image)) == set()


def test_so_are_they_where_integers_are_required():
    assert kept(transformer(sampled), QuantConfig(require_int8=True)) == set()
