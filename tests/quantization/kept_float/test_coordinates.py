"""Small products of coordinates stay in float: which do, and what does not read positions."""

import numpy as np
import onnx
import pytest
from onnx import helper
from tvm import relax

import relay_int8
from relay_int8.compiler.pipeline import normalized
from relay_int8.numerics.snr import snr_db
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.kept_float.coordinates import MOST, REASON
from tests.onnx_models import model
from tests.small_networks import NetworkWriter

fast = pytest.mark.fast


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


@fast
@pytest.mark.parametrize("read", [sampled, gathered])
def test_products_of_positions_stay_in_float(read):
    assert kept(transformer(read)) == {"head", "places/product"}


@fast
def test_so_do_layers_that_give_matrices():
    net = NetworkWriter((1, 8, 6, 6))
    mean = net.emit("mean", relax.op.mean(net.x, [2, 3]))
    head = net.emit("head", relax.op.matmul(mean, net.constant(8, 6)))
    matrix = net.emit("matrix", relax.op.reshape(head, (1, 2, 3)))
    grid = net.emit("grid", relax.op.image.affine_grid(matrix, (6, 6)))
    y = net.emit("sampled", relax.op.image.grid_sample(net.x, grid))
    assert kept(net.module(net.conv("y", y, 4, 1))) == {"head"}


@fast
def test_a_constant_image_or_grid():
    """Queries of a decoder's first layer are constants, and so may be where they look."""
    rng = np.random.default_rng(0)

    def of_constant(net, places):
        grid = net.emit("grid", relax.op.reshape(places, (1, 2, 6, 6)))
        image = net.constant(1, 3, 5, 5)
        return net.emit("sampled", relax.op.image.grid_sample(image, grid))

    def at_constants(net, places):
        image = net.emit("rows", relax.op.reshape(places, (1, 2, 6, 6)))
        grid = relax.const(rng.uniform(-1, 1, (1, 2, 4, 4)).astype("float32"))
        return net.emit("sampled", relax.op.image.grid_sample(image, grid))

    assert kept(transformer(of_constant)) == {"head", "places/product"}
    assert kept(transformer(at_constants)) == set()


@fast
def test_layers_of_many_products_are_integers():
    assert kept(transformer(sampled, hidden=MOST + 1)) == {"places/product"}


@fast
def test_so_are_products_that_a_layer_reads():
    assert kept(transformer(as_image)) == set()


@fast
def test_so_are_they_where_integers_are_required():
    assert kept(transformer(sampled), QuantConfig(require_int8=True)) == set()


def test_a_turned_image_is_nearly_that_of_floats(tmp_path):
    """With places and matrices of bytes there are 26 decibels."""
    rng, node = np.random.default_rng(0), helper.make_node
    nodes = [
        node("Conv", ["x", "w"], ["features"]),
        node("GlobalAveragePool", ["features"], ["means"]),
        node("Flatten", ["means"], ["flat"]),
        node("Gemm", ["flat", "head", "identity"], ["row"]),
        node("Reshape", ["row", "dims"], ["theta"]),
        node("MatMul", ["places", "theta"], ["turned"]),
        node("Reshape", ["turned", "size"], ["grid"]),
        node("GridSample", ["x", "grid"], ["y"]),
    ]
    ends = np.linspace(-1, 1, 32, dtype="float32")
    values = {
        "w": rng.normal(size=(8, 3, 3, 3)).astype("float32"),
        "head": rng.normal(size=(8, 6)).astype("float32") / 8,
        "identity": np.array([1, 0, 0, 1, 0, 0], "float32"),
        "dims": np.array([1, 3, 2]),
        "places": np.stack(
            [*np.meshgrid(ends, ends), np.ones_like(ends[:, None] * ends)], -1
        ).reshape(-1, 3),
        "size": np.array([1, 32, 32, 2]),
    }
    onnx.save(
        model(nodes, {"x": [1, 3, 32, 32]}, {"y": None}, values, opset=20), tmp_path / "m.onnx"
    )
    net = relay_int8.load_model(tmp_path / "m.onnx")
    waves = rng.normal(size=(8, 3, 3, 1, 1)) * np.array([0.2, 0.2, 3.0]).reshape(3, 1, 1)
    rows, columns = np.mgrid[:32, :32]
    data = np.sin(waves[:, :, 0] * rows + waves[:, :, 1] * columns + waves[:, :, 2])
    data = data.astype("float32")
    relay_int8.build(relay_int8.quantize(net, data)).save(tmp_path / "m.ri8")
    image = {"x": data[:1]}
    wanted = relay_int8.float_network(net)(image)["y"]
    found = relay_int8.load(tmp_path / "m.ri8").run(image)["y"]
    ratio = snr_db(wanted, found)
    assert ratio is not None and ratio > 33
