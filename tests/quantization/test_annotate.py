"""annotate: what becomes integer, how, and why not."""

from collections.abc import Callable

import pytest
import tvm
from tvm import relax

from relay_int8.errors import ConfigError
from relay_int8.graph.plan import Plan
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from tests.small_networks import NETWORKS, NetworkWriter, branches, dense_blocks, nn, residual

pytestmark = pytest.mark.fast


def reasons(plan: Plan) -> dict[str, str | None]:
    return {layer.name: layer.reason for layer in plan.layers}


def test_last_layer_gives_float_and_additions_join_convolutions():
    plan = annotate(residual(), QuantConfig())
    assert set(reasons(plan).values()) == {None}
    assert {layer.cause for layer in plan.layers} == {""}
    kinds = {layer.name: layer.kind for layer in plan.layers}
    assert "d/add" not in kinds and kinds["d"] == kinds["f"] == "conv2d"
    assert "logits" not in plan.tensors


def test_the_later_convolution_takes_the_addition():
    plan = annotate(residual(), QuantConfig())
    layers = {layer.name: layer.root for layer in plan.layers}
    assert layers["d"] == "c/conv"
    assert "b" in plan.tensors and "c" not in plan.tensors


@pytest.mark.parametrize(
    ("preset", "relu", "signed", "entry"),
    [
        ("int8", "u8", "s8", "input"),
        ("int8-symmetric", "s8", "s8", "s8"),
        ("int8-asymmetric", "u8", "asymmetric", "asymmetric"),
    ],
)
def test_presets(preset: str, relu: str, signed: str, entry: str):
    tensors = annotate(residual(), QuantConfig(preset=preset)).tensors
    assert (tensors["a"].scheme, tensors["b"].scheme, tensors["x"].scheme) == (relu, signed, entry)


def test_concat_shares_what_it_can():
    tensors = annotate(branches(), QuantConfig()).tensors
    like = {name: tensor.like for name, tensor in tensors.items()}
    assert like["b"] == like["c"] == like["mean"] == like["d"] == "d"
    assert like["pool"] == like["a"] == "a"  # has other readers: the concat rescales it


def test_a_dense_block_has_one_scale():
    tensors = annotate(dense_blocks(), QuantConfig()).tensors
    like = {name: tensor.like for name, tensor in tensors.items()}
    assert {like[name] for name in ("new0", "new1", "new2", "list1", "list2")} == {"whole"}
    assert like["pool"] == "a"  # it gives what it reads
    assert like["d0"] == like["d1"] == like["nest0"] == like["nest1"] == "nest2"
    assert like["c"] == "c"  # a convolution reads it too


def test_a_concat_that_is_joined_again_alone_keeps_its_range():
    net = NetworkWriter()
    a, b, c = (net.conv(name, net.x, 16, 1) for name in "abc")
    inner = net.emit("inner", relax.op.concat([a, b], axis=1))
    outer = net.emit("outer", relax.op.concat([c, inner], axis=1))
    tensors = annotate(net.module(net.conv("d", outer, 4, 1)), QuantConfig()).tensors
    assert tensors["a"].like == tensors["b"].like == tensors["inner"].like == "inner"
    assert tensors["c"].like == "outer"


def test_concats_that_are_no_parts_have_scales_of_their_own():
    net = NetworkWriter()
    a, b, c = (net.conv(name, net.x, 16, 1) for name in "abc")
    first = net.conv("e", net.emit("d", relax.op.concat([a, b], axis=1)), 4, 1)
    second = net.conv("g", net.emit("f", relax.op.concat([b, c], axis=1)), 4, 1)
    tensors = annotate(net.module(first, second), QuantConfig()).tensors
    like = {name: tensor.like for name, tensor in tensors.items()}
    assert like == {"x": "x", "a": "d", "b": "b", "c": "f", "d": "d", "f": "f"}


def test_an_input_that_is_joined_keeps_its_range():
    """One that is padded alone takes the range of the padded one."""
    net = NetworkWriter()
    joined = net.emit("joined", relax.op.concat([net.x, net.x], axis=1))
    tensors = annotate(net.module(net.conv("a", joined, 4, 1)), QuantConfig()).tensors
    assert {name: tensor.like for name, tensor in tensors.items()} == {"x": "x", "joined": "joined"}


def test_every_layer_has_its_macs():
    macs = {layer.name: layer.macs for layer in annotate(residual(), QuantConfig()).layers}
    assert macs["a"] == 20 * 3 * 9 * 6 * 5
    assert macs["logits"] == 20 * 7
    assert macs["pool"] == 0


@pytest.mark.parametrize(
    ("exclude", "floats"),
    [
        (("d",), {"d"}),
        (("a/bias/conv",), {"a"}),
        (("dense",), {"logits", "pool", "flat", "f"}),
        (("conv2d",), {"a", "b0", "b", "d", "e", "f", "pool", "flat"}),
    ],
)
def test_exclusions(exclude: tuple[str, ...], floats: set[str]):
    plan = annotate(residual(), QuantConfig(exclude=exclude))
    found = {layer.name for layer in plan.layers if layer.reason is not None}
    assert found <= floats and {name for name in exclude if "/" not in name} & floats <= found
    assert any(layer.cause == "excluded" for layer in plan.layers)


def test_a_sum_that_no_integer_layer_reads_stays_float():
    """What an image has added in the end, or coordinates, is not rounded to 256 values."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 8, 3, padding=1))
    moved = net.emit("moved", relax.op.add(net.conv("b", a, 8, 1), a))
    again = net.emit("again", relax.op.add(net.conv("c", a, 8, 1), moved))
    plan = annotate(net.module(net.relu("y", again)), QuantConfig())
    assert reasons(plan) == {
        "a": None,
        "b": None,
        "moved": "no integer operator reads its result",
        "c": None,
        "y": "no integer operator reads its result",
    }
    assert set(plan.tensors) == {"x", "a"}


def test_excluded_addition_stands_alone():
    plan = annotate(residual(), QuantConfig(exclude=("add",)))
    layers = {layer.name: layer for layer in plan.layers}
    assert layers["d"].kind == layers["f"].kind == "add"
    assert layers["d"].reason == "excluded by the user"
    assert layers["e"].kind == "conv2d" and layers["e"].integer


def test_excluded_additions_leave_functions_where_they_are():
    net = NetworkWriter()
    a = net.emit("a", nn.silu(net.conv("a/bias", net.x, 8, 3, padding=1)))
    b = net.emit("b", relax.op.add(net.conv("b/conv", a, 8, 1), a))
    mod = net.module(net.conv("c", b, 4, 1))
    plain, apart = (annotate(mod, QuantConfig(exclude=names)) for names in ((), ("add",)))
    assert [layer.name for layer in plain.layers] == ["a", "b", "c"]
    assert [layer.name for layer in apart.layers] == ["a", "b/conv", "b", "c"]


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (lambda net, y: net.emit("z", nn.softmax(y, axis=1)), "nn.softmax has no integer form"),
        (
            lambda net, y: net.emit("z", relax.op.add(y, net.constant(1, 4, 10, 9))),
            "one of its operands is a constant",
        ),
        (
            lambda net, y: net.emit("z", nn.pad(y, [0, 0, 0, 0, 1, 1, 1, 1], "circular")),
            "it pads with circular; only a constant, edge and reflect are supported",
        ),
        (
            lambda net, y: net.emit("z", nn.pad(y, [0, 0, 0, 0, 1, 10, 9, 1], "reflect")),
            "it mirrors 10 elements of 10",
        ),
        (
            lambda net, y: net.emit("z", nn.pad(y, [0, 0, 0, 0, -1, 1, 0, 0], "replicate")),
            "it has negative widths",
        ),
        (
            lambda net, y: net.emit("z", relax.op.image.resize2d(y, (20, 18), method="cubic")),
            "cubic interpolation; only nearest and linear are supported",
        ),
    ],
)
def test_reasons(tail, reason: str):
    net = NetworkWriter()
    y = net.conv("y", net.x, 4, 3)
    plan = annotate(net.module(net.conv("end", tail(net, y), 2, 1)), QuantConfig())
    layers = {layer.name: layer for layer in plan.layers}
    assert layers["z"].reason == reason and layers["z"].cause == "unsupported"
    assert layers["y"].integer and layers["end"].integer


def test_what_prepares_the_input_stays_in_float():
    net = NetworkWriter()
    deviation = net.emit("deviation", relax.op.subtract(net.x, net.constant(1, 3, 1, 1)))
    y = net.emit("y", relax.op.divide(deviation, net.constant(3, 1, 1)))
    plan = annotate(net.module(net.conv("end", y, 2, 1)), QuantConfig())
    assert reasons(plan)["y"] == "it prepares the network's input, which is quantized after it"
    assert plan.tensors["y"].scheme == "asymmetric" and "x" not in plan.tensors


def test_refused_layer_stays_float():
    plan = annotate(residual(), QuantConfig(), refused={"f": "too wide"})
    layers = {layer.name: layer for layer in plan.layers}
    assert (layers["f"].reason, layers["f"].cause) == ("too wide", "unsupported")


def test_moves_at_the_end_stay_float():
    net = NetworkWriter()
    y = net.conv("y", net.x, 4, 3)
    plan = annotate(net.module(net.emit("z", relax.op.permute_dims(y))), QuantConfig())
    assert reasons(plan) == {"y": None, "z": "no integer operator reads its result"}
    assert [layer.cause for layer in plan.layers] == ["", "unneeded"]
    assert set(plan.tensors) == {"x"}


def test_a_reduction_is_no_pair():
    net = NetworkWriter()
    y = net.emit("y", relax.op.max(net.conv("a", net.x, 4, 3), axis=[2]))
    plan = annotate(net.module(y), QuantConfig())
    assert reasons(plan) == {"a": None, "y": "reduce_max has no integer form"}


def test_leaves_input_alone():
    mod = residual()
    original = mod.clone()
    annotate(mod, QuantConfig())
    tvm.ir.assert_structural_equal(mod, original)


@pytest.mark.parametrize("name", NETWORKS)
def test_plan_survives_json(name: str):
    plan = annotate(NETWORKS[name](), QuantConfig())
    assert Plan.from_json(plan.to_json()) == plan


def test_exclusion_that_names_nothing():
    with pytest.raises(ConfigError, match="conv9, softmax: no layer has such a name or type"):
        annotate(residual(), QuantConfig(exclude=("softmax", "conv2d", "conv9")))


def test_unknown_preset():
    with pytest.raises(ConfigError, match="choose one of int8, int8-symmetric"):
        QuantConfig(preset="int4")


def test_products_of_two_activations():
    net = NetworkWriter((1, 4, 6, 6))
    y = net.emit("y", relax.op.matmul(net.x, net.x))
    plan = annotate(net.module(y), QuantConfig())
    (layer,) = plan.layers
    assert layer.reason is None
    assert layer.macs == 4 * 6 * 6 * 6


def normalized(follow: Callable[[NetworkWriter, relax.Var], relax.Var]) -> Plan:
    """Return the plan of a GroupNorm between two convolutions, and what follows the norm."""
    net = NetworkWriter()
    a = net.conv("a", net.x, 8, 3, padding=1)
    norm = nn.group_norm(a, net.constant(8), net.constant(8), 4, 1, [2, 3])
    b = follow(net, net.emit("norm", norm))
    return annotate(net.module(net.conv("b", b, 4, 1)), QuantConfig())


def test_what_follows_a_norm_reads_its_integers():
    plan = normalized(lambda net, x: net.emit("swish", nn.silu(x)))
    assert reasons(plan)["norm"] == "nn.group_norm has no integer form"
    assert reasons(plan)["swish"] is None
    assert {"norm", "swish"} <= set(plan.tensors)


def test_bounds_of_a_norm_are_part_of_it():
    plan = normalized(lambda net, x: net.emit("max", nn.max_pool2d(net.relu("relu", x), 2)))
    reason = "its bounds are those of norm, which is computed in float"
    assert (reasons(plan)["relu"], reasons(plan)["max"]) == (reason, None)
    assert "norm" not in plan.tensors and "relu" in plan.tensors


def test_a_norm_of_other_axes_gives_no_integers():
    def follow(net: NetworkWriter, x: relax.Var) -> relax.Var:
        other = net.emit("other", nn.layer_norm(x, net.constant(8), net.constant(8), [1]))
        return net.emit("swish", nn.silu(other))

    assert reasons(normalized(follow))["swish"] == "its input other is computed in float"


def scaled_sum(config: QuantConfig) -> Plan:
    """Return the plan of a float sum, a batch norm as a convolution behind it, and a convolution."""
    net = NetworkWriter((1, 8, 6, 6))
    total = net.emit("sum", relax.op.add(net.x, net.constant(1, 8, 6, 6)))
    scaled = net.conv("scaled", total, 8, 1, groups=8)
    kept = net.emit("kept", relax.op.add(total, net.conv("a", scaled, 8, 3, padding=1)))
    return annotate(net.module(kept), config)


def test_a_scaling_of_floats_stays_float():
    plan = reasons(scaled_sum(QuantConfig()))
    assert plan["scaled"] == "its input sum is computed in float"
    assert plan["a"] is None


def test_a_scaling_of_floats_is_integer_where_that_is_required():
    plan = reasons(scaled_sum(QuantConfig(require_int8=True)))
    assert plan["scaled"] is None


def test_a_scaling_between_integers_is_integer():
    net = NetworkWriter((1, 8, 6, 6))
    pooled = net.emit("pool", nn.max_pool2d(net.conv("a", net.x, 8, 3), 2))
    scaled = net.conv("scaled", pooled, 8, 1, groups=8)
    plan = reasons(annotate(net.module(net.conv("b", scaled, 4, 1)), QuantConfig()))
    assert plan["scaled"] is None


def test_a_convolution_with_computed_weights_has_a_reason():
    net = NetworkWriter((1, 4, 5, 5))
    weights = net.emit("w", relax.op.reshape(net.x, (25, 4, 1, 1)))
    plan = annotate(net.module(net.emit("y", nn.conv2d(net.x, weights))), QuantConfig())
    assert reasons(plan)["y"] == "its weights are not constant"
