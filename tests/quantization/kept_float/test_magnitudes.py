"""Squares and other powers under a root stay in float: which do, and what is no root."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.pipeline import normalized
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.kept_float.magnitudes import REASON
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


ROOTS = {
    "sqrt": relax.op.sqrt,
    "cube root": lambda x: relax.op.power(x, relax.const(np.float32(1 / 3))),
}
OTHERS = {"tanh": relax.op.tanh, "sigmoid": relax.op.sigmoid, "exp": relax.op.exp}


def network(function, *, read_too=False):
    """Return conv -> squares of two halves of the channels -> sum -> a function -> conv."""
    net = NetworkWriter((1, 3, 6, 6))
    x = net.relu("x1", net.conv("x1/conv", net.x, 8, 3))
    halves = [
        net.emit(f"half{i}", relax.op.strided_slice(x, [1], [4 * i], [4 * i + 4])) for i in range(2)
    ]
    squares = [
        net.emit(f"square{i}", relax.op.multiply(half, half)) for i, half in enumerate(halves)
    ]
    total = net.emit("total", relax.op.add(*squares))
    y = net.conv("y", net.emit("shown", function(total)), 4, 1)
    return net.module(y, net.conv("z", total, 4, 1)) if read_too else net.module(y)


def kept(mod, config=None):
    plan = annotate(normalized(mod)[0], config or QuantConfig())
    return {layer.name for layer in plan.layers if layer.reason == REASON}


@pytest.mark.parametrize("root", ROOTS)
def test_squares_under_a_root_stay_in_float(root):
    assert kept(network(ROOTS[root])) == {"square0", "square1"}


@pytest.mark.parametrize("axes", [[1], [2, 3]], ids=["channels", "pixels"])
def test_those_summed_along_axes_do_too(axes):
    net = NetworkWriter((1, 3, 6, 6))
    x = net.relu("x1", net.conv("x1/conv", net.x, 8, 3))
    square = net.emit("square", relax.op.multiply(x, x))
    total = net.emit("total", relax.op.sum(square, axes, keepdims=True))
    root = net.emit("root", relax.op.sqrt(total))
    assert kept(net.module(net.conv("y", root, 4, 1))) == {"square"}


@pytest.mark.parametrize(("exponent", "expected"), [(3.0, {"power"}), (1.2, set())])
def test_means_of_powers_under_a_root_do_if_the_powers_are_steep(exponent, expected):
    net = NetworkWriter((1, 3, 6, 6))
    x = net.relu("x1", net.conv("x1/conv", net.x, 8, 3))
    power = net.emit("power", relax.op.power(x, relax.const(np.float32(exponent))))
    mean = net.emit("mean", relax.op.mean(power, [2, 3], keepdims=True))
    root = net.emit("root", relax.op.power(mean, relax.const(np.float32(1 / 3))))
    assert kept(net.module(net.conv("y", root, 4, 1))) == expected


@pytest.mark.parametrize("function", OTHERS)
def test_squares_under_other_functions_do_not(function):
    assert kept(network(OTHERS[function])) == set()


def test_nor_do_squares_that_a_layer_reads_too():
    assert kept(network(relax.op.sqrt, read_too=True)) == set()


def test_nor_do_those_whose_sum_is_multiplied_by_another_tensor():
    net = NetworkWriter((1, 3, 6, 6))
    x = net.relu("x1", net.conv("x1/conv", net.x, 8, 3))
    square = net.emit("square", relax.op.multiply(x, x))
    weighed = net.emit("weighed", relax.op.multiply(square, net.conv("gate", net.x, 8, 3)))
    root = net.emit("root", relax.op.sqrt(weighed))
    assert kept(net.module(net.conv("y", root, 4, 1))) == set()


def test_nor_where_integers_are_required():
    assert kept(network(relax.op.sqrt), QuantConfig(require_int8=True)) == set()
