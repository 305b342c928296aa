"""find_groups: what an epilogue absorbs, and what it must leave alone."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.graph.group import Clip, Group, Leaky, Smooth
from relay_int8.graph.groups import find_groups
from tests.small_networks import NetworkWriter, constants, functions, nn

pytestmark = pytest.mark.fast


def groups(mod: tvm.IRModule, *alone: str) -> dict[str, Group]:
    return {group.name: group for group in find_groups(mod["main"], alone)}


def test_bias_and_activation_are_absorbed():
    net = NetworkWriter()
    (group,) = groups(net.module(net.relu("y", net.conv("c", net.x, 5, 3)))).values()
    assert (group.kind, group.name, len(group.members)) == ("conv2d", "y", 3)
    assert group.bias is not None and group.bias.shape == (5,)
    assert group.activation == Clip(0.0, np.inf)


def test_a_second_reader_keeps_the_activation_apart():
    net = NetworkWriter()
    c = net.conv("c", net.x, 5, 3)
    found = groups(net.module(net.relu("y", c), net.conv("z", c, 2, 1)))
    assert found["c"].activation is None and found["y"].kind == "activation"


def test_a_result_of_the_network_keeps_the_activation_apart():
    net = NetworkWriter()
    c = net.conv("c", net.x, 5, 3)
    found = groups(net.module(net.relu("y", c), c))
    assert set(found) == {"c", "y"}


def test_bias_along_another_axis_is_no_bias():
    net = NetworkWriter()
    c = net.emit("c", nn.conv2d(net.x, net.constant(5, 3, 3, 3)))
    y = net.emit("y", relax.op.add(c, net.constant(1, 1, 1, 9)))
    found = groups(net.module(y))
    assert found["c"].bias is None and found["y"].kind == "add"


def test_scalar_bias_reaches_every_channel():
    net = NetworkWriter()
    c = net.emit("c", nn.conv2d(net.x, net.constant(5, 3, 3, 3)))
    found = groups(net.module(net.emit("y", relax.op.add(relax.const(0.5), c))))
    np.testing.assert_array_equal(found["y"].bias, np.full(5, 0.5, "float32"))


@pytest.mark.parametrize("follower", [relax.op.sigmoid, nn.relu])
def test_bias_of_a_single_channel_starts_no_function(follower):
    """It is a scalar, as in ``sigmoid(x + 3)``, which is one function of x."""
    net = NetworkWriter()
    found = groups(net.module(net.emit("y", follower(net.conv("c", net.x, 1, 3)))))
    assert sum(len(group.members) for group in found.values()) == 3
    assert next(iter(found.values())).bias is not None


@pytest.mark.parametrize("swapped", [False, True])
def test_the_last_convolution_takes_the_addition(swapped: bool):
    net = NetworkWriter()
    a, b = net.conv("a", net.x, 5, 3), net.conv("b", net.x, 5, 3)
    found = groups(net.module(net.emit("y", relax.op.add(*((b, a) if swapped else (a, b))))))
    assert found["y"].members[0].name == "b/conv" and found["y"].residual
    assert [var.name for var in found["y"].inputs] == ["x", "a"]


def test_an_early_convolution_takes_the_addition_where_the_later_cannot():
    net = NetworkWriter()
    a, b = net.conv("a", net.x, 5, 3), net.relu("b", net.conv("b/bias", net.x, 5, 3))
    found = groups(net.module(net.emit("y", relax.op.add(a, b))))
    assert found["y"].members[0].name == "a/conv"
    assert list(found) == ["b", "y"]  # y reads b, and so comes after it


def test_what_is_alone_is_not_absorbed():
    net = NetworkWriter()
    a, b = net.conv("a", net.x, 5, 3), net.conv("b", net.x, 5, 3)
    found = groups(net.module(net.emit("y", relax.op.add(a, b))), "y")
    assert {group.kind for group in found.values()} == {"conv2d", "add"}


def test_adding_a_tensor_to_itself_is_a_function_of_it():
    net = NetworkWriter()
    c = net.conv("c", net.x, 5, 3)
    found = groups(net.module(net.emit("y", relax.op.add(c, c))))
    assert found["y"].kind == "function" and not found["c"].residual


def test_a_tree_of_one_tensor_is_one_function():
    found = groups(functions(), "hardswish", "silu")
    assert {name for name, group in found.items() if group.kind == "function"} == {
        "hardswish",
        "silu",
        "d",
    }
    x = np.linspace(-5, 5, 11)
    assert found["hardswish"].function is not None and found["silu"].function is not None
    np.testing.assert_allclose(found["hardswish"].function(x), x * np.clip(x + 3, 0, 6) / 6)
    np.testing.assert_allclose(found["silu"].function(x), x / (1 + np.exp(-x)))
    assert [var.name for var in found["d"].inputs] == ["c"]


def test_a_layer_absorbs_the_function_that_alone_reads_it():
    found = groups(functions())
    for name, activation in (("hardswish", "hard_swish"), ("stretched", "swish")):
        smooth = found[name].activation
        assert isinstance(smooth, Smooth)
        assert (found[name].kind, smooth.name, smooth.kind) == ("conv2d", activation, "function")
    assert not {"a", "b", "silu"} & set(found)
    assert found["d"].kind == "function", "its operand is clipped"


def test_a_layer_multiplies_by_the_factors_behind_its_function():
    smooth = groups(functions())["stretched"].activation
    assert isinstance(smooth, Smooth)
    np.testing.assert_allclose(smooth.factors, np.linspace(0.5, 2, 12))
    for separate in ("silu", "stretched"):
        found = groups(functions(), separate)
        assert found["silu"].kind == "function" and found["stretched"].kind == "affine"


@pytest.mark.parametrize("factor", [[0.5, -1.0], [0.0, 1.0]])
def test_factors_that_are_not_positive_stay_apart(factor: list[float]):
    net = NetworkWriter()
    a = net.emit("a", nn.silu(net.conv("c", net.x, 2, 1)))
    factors = relax.const(np.float32(factor).reshape(2, 1, 1))
    found = groups(net.module(net.conv("z", net.emit("y", relax.op.multiply(a, factors)), 4, 1)))
    assert isinstance(found["a"].activation, Smooth) and found["a"].activation.factors is None
    assert found["y"].kind == "affine"


@pytest.mark.parametrize("reader", ["another", "the caller"])
def test_a_function_stays_apart_where_others_read_its_operand(reader: str):
    net = NetworkWriter()
    c = net.conv("c", net.x, 8, 3, padding=1)
    y = net.conv("z", net.emit("y", nn.silu(c)), 4, 1)
    others = {"another": [net.conv("e", c, 4, 1)], "the caller": [c]}.get(reader, [])
    assert groups(net.module(y, *others))["y"].kind == "nn.silu"


def test_functions_are_apart_by_name_and_altogether():
    net = NetworkWriter()
    y = net.emit("y", nn.silu(net.conv("c", net.x, 8, 3)))
    mod = net.module(net.conv("z", y, 4, 1))
    assert set(groups(mod)) == {"y", "z"}
    assert set(groups(mod, "y")) == {"c", "y", "z"}
    assert {group.name for group in find_groups(mod["main"], functions=False)} == {"c", "y", "z"}


def test_a_value_read_elsewhere_keeps_a_tree_apart():
    net = NetworkWriter()
    inner = net.emit("inner", relax.op.add(net.x, relax.const(3.0)))
    y = net.emit("y", relax.op.multiply(net.x, inner))
    found = groups(net.module(y, inner))
    assert found["y"].kind == "mul"


def test_a_tree_of_two_tensors_is_no_function():
    net = NetworkWriter()
    c = net.conv("c", net.x, 3, 3, padding=1)
    gate = net.emit("gate", relax.op.sigmoid(net.x))
    found = groups(net.module(net.emit("y", relax.op.multiply(c, gate))))
    assert (found["y"].kind, found["gate"].kind) == ("mul", "sigmoid")


def test_arithmetic_by_channel_is_one_affine_function():
    found = groups(constants())
    kinds = {name: group.kind for name, group in found.items() if group.kind != "conv2d"}
    assert kinds == {"b": "affine", "d": "affine", "e": "affine", "sum": "add", "f": "affine"}
    assert [var.name for var in found["b"].members] == ["centred", "b"]
    assert found["e"].affine is not None and (found["e"].affine.scale == -1).all()
    assert isinstance(found["e"].activation, Clip)
    f = found["f"].affine
    assert f is not None and (f.scale == -0.75).all() and len(set(f.shift)) == 12


def test_arithmetic_with_scalars_and_with_pixels_is_not_by_channel():
    net = NetworkWriter()
    a = net.emit("a", relax.op.multiply(net.x, relax.const(2.0)))
    b = net.emit("b", relax.op.add(net.relu("r", a), net.constant(1, 1, 12, 11)))
    c = net.emit("c", relax.op.divide(net.constant(3, 1, 1), b))
    zero = relax.const(np.array([1, 0, 2], "float32").reshape(3, 1, 1))
    found = groups(net.module(net.emit("d", relax.op.divide(c, zero))))
    assert found["r"].kind == "function"
    assert all(group.affine is None for group in found.values())


def test_a_slope_or_a_function_of_a_sum():
    net = NetworkWriter()
    a, b = net.conv("a", net.x, 5, 3), net.conv("b", net.x, 5, 3)
    y = net.emit("y", nn.leakyrelu(net.emit("s", relax.op.add(a, b)), 0.1))
    z = net.emit("z", nn.silu(net.emit("t", relax.op.add(net.conv("c", y, 5, 1), y))))
    mod = net.module(z)
    found = groups(mod)
    assert set(found) == {"a", "y", "z"}
    assert all(found[name].sum_first and not found[name].ends_in_sum for name in "yz")
    assert isinstance(found["y"].activation, Leaky) and isinstance(found["z"].activation, Smooth)
    assert set(groups(mod, "y", "z")) == {"a", "s", "y", "t", "z"}


@pytest.mark.parametrize("of", [nn.relu, lambda x: nn.leakyrelu(x, 0.1), nn.silu, relax.op.sigmoid])
def test_a_residual_behind_an_activation(of: Callable[[relax.Expr], relax.Expr]):
    net = NetworkWriter()
    x = net.conv("x0", net.x, 5, 1)
    y = net.emit("y", relax.op.add(x, net.emit("a", of(net.conv("c", x, 5, 1)))))
    mod = net.module(net.emit("z", relax.op.add(net.emit("b", of(net.conv("d", y, 5, 1))), y)))
    found = groups(mod)
    assert set(found) == {"x0", "y", "z"}
    assert all(found[name].ends_in_sum and not found[name].sum_first for name in "yz")
    assert [var.name for var in found["z"].inputs] == ["y", "y"]
    assert set(groups(mod, "y")) == {"x0", "a", "y", "z"}


def test_a_bound_in_front_of_a_sum_is_the_layers_own():
    net = NetworkWriter()
    x = net.conv("x0", net.x, 5, 1)
    a = net.emit("a", relax.op.clip(net.conv("c", x, 5, 1), 0, 6))
    y = net.emit("y", nn.relu(net.emit("s", relax.op.add(x, a))))
    b = net.emit("b", nn.relu(net.conv("d", y, 5, 1)))
    found = groups(net.module(net.emit("z", nn.relu(net.emit("t", relax.op.add(y, b))))))
    assert set(found) == {"x0", "a", "y", "b", "z"}


def test_clip_bounds():
    net = NetworkWriter()
    found = groups(net.module(net.emit("y", relax.op.clip(net.conv("c", net.x, 5, 3), -1, 6))))
    assert found["y"].activation == Clip(-1.0, 6.0)
