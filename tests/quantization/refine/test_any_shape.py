"""Networks whose tensors do not keep images along the first axis, as float kernels compute them.

Channel shuffles over sequences, flattened heads, windows of attention, stacks, parts of tuples.
"""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.calibration.network import CalibrationNetwork
from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.compiler.pipeline import normalize
from relay_int8.graph import dataflow
from relay_int8.graph.layers import averaged_tensors
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.refine.equalize import channel_maxima
from relay_int8.quantization.refine.float_tensors import FloatTensors, KnownRunner
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.reconstruct import reconstruct
from relay_int8.quantization.refine.simulation import Simulation
from schedules.targets import native_target
from tests.calibration.array_runner import channel_means
from tests.compiled import UNOPTIMIZED
from tests.small_networks import NetworkWriter, any_params, images, nn

op = relax.op
pytestmark = pytest.mark.fast


def _start() -> tuple[NetworkWriter, relax.Var]:
    net = NetworkWriter((1, 3, 4, 6))
    return net, net.relu("h", net.conv("h/bias", net.x, 8, 3, padding=1))


def shuffled_sequence() -> tvm.IRModule:
    """Channels are shuffled as rows of a matrix; the halves are images of an axis in front."""
    net, h = _start()
    pairs = net.emit("pairs", op.reshape(h, (4, 2, 24)))
    turned = net.emit("turned", op.permute_dims(pairs, (1, 0, 2)))
    halves = net.emit("halves", op.reshape(turned, (2, 4, 4, 6)))
    both = [net.emit(f"cut{i}", op.strided_slice(halves, [0], [i], [i + 1])) for i in (0, 1)]
    return net.module(*(net.conv(f"y{i}", cut, 5, 1) for i, cut in enumerate(both)))


def images_in_front() -> tvm.IRModule:
    """Convolutions of two images that one image is cut into, with a residual."""
    net, h = _start()
    two = net.emit("two", op.reshape(h, (2, 4, 4, 6)))
    a = net.relu("a", net.conv("a/bias", two, 8, 3, padding=1))
    added = net.emit("added", op.add(net.conv("b", a, 4, 1), two))
    pooled = net.emit("pooled", nn.max_pool2d(added, pool_size=2, strides=2))
    return net.module(net.emit("y", op.reshape(pooled, (1, 8, 2, 3))))


def flattened_heads() -> tvm.IRModule:
    """Boxes by row, without an axis of images; a dense layer on each; two of them joined."""
    net, h = _start()
    rows = net.emit("rows", op.permute_dims(h, (0, 2, 3, 1)))
    flat = net.emit("flat", op.reshape(rows, (24, 8)))
    small = net.emit("small", nn.max_pool2d(h, pool_size=2, strides=2))
    other = net.emit("other", op.reshape(small, (6, 8)))
    joined = net.emit("joined", op.concat([flat, other], axis=0))
    hidden = net.relu("hidden", net.emit("product", op.matmul(joined, net.constant(8, 7))))
    return net.module(net.emit("y", op.matmul(hidden, net.constant(7, 4))), flat)


def vectors() -> tvm.IRModule:
    """Dense layers on a vector, a scalar beside it."""
    net, h = _start()
    vector = net.emit("vector", op.reshape(h, (192,)))
    hidden = net.relu("hidden", net.emit("product", op.matmul(vector, net.constant(192, 5))))
    y = net.emit("y", op.matmul(hidden, net.constant(5, 3)))
    return net.module(y, net.emit("mean", op.mean(h)))


def broadcasts() -> tvm.IRModule:
    """Operands of fewer axes, and a constant that is joined to images."""
    net, h = _start()
    means = net.emit("means", op.mean(h, axis=[2, 3]))
    gate = net.emit("gate", op.reshape(means, (8, 1, 1)))
    gated = net.emit("gated", op.multiply(h, gate))
    by_row = net.emit("by row", op.mean(gated, axis=[1, 2]))
    shifted = net.emit("shifted", op.subtract(gated, by_row))
    token = relax.const(np.ones((1, 8, 1, 6), "float32"))
    joined = net.emit("joined", op.concat([token, shifted], axis=2))
    return net.module(net.conv("y", joined, 4, 1))


def windows() -> tvm.IRModule:
    """Windows of an image as rows of a batch of matrices, and back."""
    net, h = _start()
    rows = net.emit("rows", op.permute_dims(h, (0, 2, 3, 1)))
    cut = net.emit("cut", op.reshape(rows, (1, 2, 2, 3, 2, 8)))
    turned = net.emit("turned", op.permute_dims(cut, (0, 1, 3, 2, 4, 5)))
    batch = net.emit("batch", op.reshape(turned, (6, 4, 8)))
    q = net.emit("q", op.matmul(batch, net.constant(8, 5)))
    k0 = net.emit("k0", op.matmul(batch, net.constant(8, 5)))
    k = net.emit("k", op.permute_dims(k0, (0, 2, 1)))
    scores = net.emit("scores", nn.softmax(net.emit("qk", op.matmul(q, k))))
    return net.module(net.emit("y", op.matmul(scores, batch)))


def best_boxes() -> tvm.IRModule:
    """The parts of a tuple: the largest scores, and where they are."""
    net, h = _start()
    scores = net.emit("scores", op.reshape(net.conv("a", h, 2, 1), (1, 48)))
    best = net.emit("best", op.topk(scores, k=3, axis=1))
    return net.module(*(net.emit(f"part{i}", relax.TupleGetItem(best, i)) for i in (0, 1)))


def stacked_channels() -> tvm.IRModule:
    """Two results stacked along a new first axis, then as channels; the images' axis moved."""
    net, h = _start()
    parts = [net.emit(f"p{i}", op.expand_dims(net.conv(f"c{i}", h, 5, 1), 0)) for i in (0, 1)]
    stack = net.emit("stack", op.concat(parts, axis=0))
    moved = net.emit("moved", op.permute_dims(stack, (1, 0, 2, 3, 4)))
    return net.module(net.conv("y", net.emit("ten", op.reshape(moved, (1, 10, 4, 6))), 3, 1))


NETWORKS: dict[str, Callable[[], tvm.IRModule]] = {
    network.__name__: network
    for network in (
        shuffled_sequence,
        images_in_front,
        flattened_heads,
        vectors,
        broadcasts,
        windows,
        best_boxes,
        stacked_channels,
    )
}


@pytest.mark.parametrize("name", NETWORKS)
def test_floats_of_several_images_are_those_of_the_kernels(name):
    mod = normalize()(NETWORKS[name]())
    network = NumpyNetwork(mod)
    data = [{"x": x} for x in images(mod, 3)]
    (chunk,) = network.images(data)
    found = network.run(chunk)
    main = virtual_machine(compile_module(mod, UNOPTIMIZED))["main"]
    for i, image in enumerate(data):
        result = main(tvm.runtime.tensor(image["x"]))
        tensors = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
        for output, wanted in zip(dataflow.results(mod["main"]), tensors, strict=True):
            y = found[str(output.name)]
            assert len(y) == len(data)
            y = y[i].reshape(wanted.shape)
            np.testing.assert_allclose(y, wanted.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_simulation_of_several_images_is_that_of_each(name):
    mod = normalize()(NETWORKS[name]())
    plan = annotate(mod, QuantConfig())
    simulation = Simulation(plan=plan, params=any_params(plan))
    network = NumpyNetwork(mod, plan.additions)
    data = [{"x": x} for x in images(mod, 3)]
    (together,) = (network.run(chunk, simulation) for chunk in network.images(data))
    alone = [network.run(chunk, simulation) for chunk in network.images(data, 1)]
    for output, y in together.items():
        np.testing.assert_array_equal(y, np.concatenate([one[output] for one in alone]))


def means_of(network, data, means):
    """Return the channel means of some images together."""
    floats = FloatTensors(network, data)
    return KnownRunner(floats, [], means).statistics(*floats).means


@pytest.mark.parametrize("name", ["images_in_front", "flattened_heads", "vectors", "windows"])
def test_weights_and_channels_are_those_of_images_one_by_one(name):
    mod = normalize()(NETWORKS[name]())
    plan = annotate(mod, QuantConfig())
    simulation = Simulation(plan=plan, params=any_params(plan))
    network = NumpyNetwork(mod, plan.additions)
    data = [{"x": x} for x in images(mod, 3)]
    found = reconstruct(network, simulation, data, rounding="descent")
    layers = {layer.name for layer in network.groups if layer.weight is not None}
    assert set(found.weights) == layers
    means = averaged_tensors(mod["main"], plan)
    assert means
    shapes = {str(var.name): dataflow.shape(var) for var, _ in dataflow.calls(mod["main"])}
    together = means_of(network, data, means)
    for tensor in means:
        size = shapes.get(tensor, (1, 3, 4, 6))
        assert together[tensor].shape == (size[1] if len(size) == 4 else size[-1],)
        alone = [means_of(network, [one], means)[tensor] for one in data]
        np.testing.assert_allclose(together[tensor], np.mean(alone, axis=0), rtol=1e-4, atol=1e-6)
    maxima = channel_maxima(network, data)
    one_by_one = [channel_maxima(network, [one]) for one in data]
    for tensor, largest in maxima.items():
        wanted = np.max([one[tensor] for one in one_by_one], axis=0)
        np.testing.assert_allclose(largest, wanted, rtol=1e-5)


def test_kernels_average_the_channels_of_images_cut_from_one():
    mod = normalize()(images_in_front())
    plan = annotate(mod, QuantConfig())
    means = averaged_tensors(mod["main"], plan)
    (image,) = ({"x": x} for x in images(mod))
    kernels = CalibrationNetwork(mod, {}, means, native_target())
    found = kernels.statistics(image).means
    network = NumpyNetwork(mod)
    wanted = means_of(network, [image], means)
    plain = network.run(image, keep=lambda name: True) | image
    for tensor in means:
        np.testing.assert_allclose(found[tensor], wanted[tensor], rtol=1e-4, atol=1e-6)
        rows = network.rows(tensor, plain[tensor])
        np.testing.assert_allclose(found[tensor], channel_means(rows), rtol=1e-4, atol=1e-6)
