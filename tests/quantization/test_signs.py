"""Which tensors are never negative, which reach far on one side of zero alone, and their integers."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.errors import ConfigError
from relay_int8.graph.groups import find_groups
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig, Tools
from relay_int8.quantization.signs import non_negative, one_sided
from tests.small_networks import NetworkWriter, functions

pytestmark = pytest.mark.fast

FUNCTIONS = {
    "silu": (relax.op.nn.silu, True),
    "gelu": (relax.op.nn.gelu, True),
    "selu": (relax.op.nn.selu, True),
    "tanh": (relax.op.tanh, False),
    "negative": (relax.op.negative, False),
    "log": (relax.op.log, False),
    "clip to -1 and 6": (lambda x: relax.op.clip(x, -1, 6), True),
    "clip to -6 and 1": (lambda x: relax.op.clip(x, -6, 1), True),
    "clip to -2 and 6": (lambda x: relax.op.clip(x, -2, 6), False),
    "LeakyReLU 0.1": (lambda x: relax.op.nn.leakyrelu(x, 0.1), True),
    "LeakyReLU 0.3": (lambda x: relax.op.nn.leakyrelu(x, 0.3), False),
}


def found(net: NetworkWriter, *results: relax.Var) -> tuple[set[str], set[str]]:
    """Return the names of the tensors that are never negative, and of those that are one-sided."""
    groups = find_groups(net.module(*results)["main"])
    return {v.name for v in non_negative(groups)}, {v.name for v in one_sided(groups)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str):
    function, short = FUNCTIONS[name]
    net = NetworkWriter()
    y = net.emit("y", function(net.conv("a", net.x, 8, 3)))
    never, sided = found(net, net.conv("z", y, 4, 1))
    assert "y" not in never
    assert ("y" in sided) == short


@pytest.mark.parametrize(
    "join, short",
    [
        (relax.op.add, True),
        (relax.op.multiply, True),
        (relax.op.maximum, True),
        (relax.op.subtract, False),
        (lambda a, b: relax.op.concat([a, b], axis=1), True),
    ],
)
def test_what_pairs_make_of_them(join, short):
    net = NetworkWriter()
    swish = net.emit("swish", relax.op.nn.silu(net.conv("a", net.x, 8, 3)))
    relu = net.relu("relu", net.conv("b", net.x, 8, 3))
    y = net.emit("y", join(swish, relu))
    pooled = net.emit("pooled", relax.op.nn.max_pool2d(y, pool_size=2))
    never, sided = found(net, net.conv("z", pooled, 4, 1))
    assert ("y" in sided) == ("pooled" in sided) == short
    assert ("y" in never) == (join is relax.op.maximum)


@pytest.mark.parametrize(
    ("method", "expected"), [("nearest_neighbor", True), ("linear", True), ("cubic", False)]
)
def test_cubic_resizes_of_what_is_never_negative_fall_below_zero(method, expected):
    net = NetworkWriter()
    relu = net.relu("relu", net.conv("a", net.x, 8, 3))
    y = net.emit("y", relax.op.image.resize2d(relu, (20, 20), method=method))
    never, _ = found(net, net.conv("z", y, 4, 1))
    assert ("y" in never) == expected


@pytest.mark.parametrize("join", [relax.op.divide, relax.op.multiply])
def test_quotients_and_products_of_what_is_never_negative(join):
    net = NetworkWriter()
    a, b = (net.conv(name, net.x, 8, 3) for name in "ab")
    c, d = net.relu("c", a), net.relu("d", b)
    y, z = net.emit("y", join(c, d)), net.emit("z", join(c, a))
    never, _ = found(net, net.conv("end", net.emit("sum", relax.op.add(y, z)), 4, 1))
    assert "y" in never and "z" not in never


def test_two_sided_operands_make_two_sided_results():
    net = NetworkWriter()
    a, b = net.conv("a", net.x, 8, 3), net.conv("b", net.x, 8, 3)
    swish = net.emit("swish", relax.op.nn.silu(b))
    y = net.emit("y", relax.op.add(a, swish))
    assert "y" not in found(net, net.conv("z", y, 4, 1))[1]


def schemes(config: QuantConfig) -> list[str]:
    """Return those of a swish, of a ReLU, and of a convolution by itself."""
    net = NetworkWriter()
    last = net.conv("z", net.conv("y", net.x, 8, 3), 4, 1)
    plans = [annotate(mod, config).tensors for mod in (functions(), net.module(last))]
    found = plans[0]["hardswish"], plans[0]["c"], plans[1]["y"]
    return [tensor.scheme for tensor in found]


@pytest.mark.parametrize(
    "preset, swish, relu, linear",
    [
        ("int8", "asymmetric", "u8", "s8"),
        ("int8-symmetric", "s8", "s8", "s8"),
        ("int8-asymmetric", "asymmetric", "u8", "asymmetric"),
        ("int8-accurate", "asymmetric", "u8", "s8"),
    ],
)
def test_schemes(preset, swish, relu, linear):
    assert schemes(QuantConfig(preset=preset)) == [swish, relu, linear]


def test_a_unified_activation_stays_symmetric():
    net = NetworkWriter()
    pad = net.emit("pad", relax.op.nn.max_pool2d(net.conv("a", net.x, 8, 3), pool_size=2))
    slopes = relax.const(np.full(8, 0.1, np.float32))
    y = net.emit("y", relax.op.nn.prelu(pad, slopes, axis=1))
    mod = net.module(net.conv("z", y, 4, 1))
    assert annotate(mod, QuantConfig()).tensors["y"].scheme == "asymmetric"
    unified = QuantConfig(preset="int8", tools=Tools(unify=True))
    assert annotate(mod, unified).tensors["y"].scheme == "s8"
    with pytest.raises(ConfigError, match="unify=yes makes two tensors share a threshold"):
        QuantConfig(preset="int8-asymmetric", tools=Tools(unify=True))


@pytest.mark.parametrize(
    "join, low, positive",
    [
        (relax.op.add, -0.5, False),
        (relax.op.add, 0.5, True),
        (relax.op.multiply, -0.5, False),
        (relax.op.maximum, -0.5, True),
        (relax.op.minimum, -0.5, False),
        (lambda x, c: relax.op.concat([x, c], 1), -0.5, False),
        (lambda x, c: relax.op.concat([x, c], 1), 0.5, True),
    ],
)
def test_a_constant_operand_counts(join, low, positive):
    net = NetworkWriter()
    x = net.emit("x1", relax.op.nn.relu(net.conv("a", net.x, 8, 3)))
    shape = tuple(int(extent) for extent in x.ty.shape)
    table = np.linspace(low, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    y = net.emit("y", join(x, relax.const(table)))
    never, _ = found(net, net.conv("z", y, 4, 1))
    assert ("y" in never) == positive


def test_a_moved_constant_is_as_its_values_are():
    net = NetworkWriter()
    table = np.linspace(-1, 1, 4 * 5, dtype=np.float32).reshape(1, 4, 5, 1)
    y = net.emit("y", relax.op.permute_dims(relax.const(table), [0, 2, 1, 3]))
    assert "y" not in found(net, y)[0]


def test_a_negative_fill_is_negative():
    net = NetworkWriter()
    x = net.emit("x1", relax.op.nn.relu(net.conv("a", net.x, 8, 3)))
    y = net.emit("y", relax.op.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1], "constant", -1.0))
    assert "y" not in found(net, y)[0]
