"""Transposed convolutions become convolutions: the numbers of ONNX Runtime, and the integers."""

import itertools

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

from relay_int8.compiler.passes.normalize.lower_transposed_conv import LowerTransposedConv
from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, operator
from tests.onnx_models import model, run_onnx, run_relax
from tests.small_networks import NetworkWriter, nn

CASES = {
    "k4 s2": dict(kernel=(4, 4), strides=[2, 2], pads=[1, 1, 1, 1]),
    "k2 s2": dict(kernel=(2, 2), strides=[2, 2]),
    "k3 s2 output padding": dict(
        kernel=(3, 3), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]
    ),
    "k3 s1": dict(kernel=(3, 3), pads=[1, 0, 1, 2]),
    "k3 s1 dilated": dict(kernel=(3, 2), dilations=[2, 3], pads=[1, 1, 0, 0]),
    "k3 s2 dilated": dict(kernel=(3, 3), strides=[2, 3], dilations=[2, 2], pads=[0, 1, 2, 1]),
    "k1 s3": dict(kernel=(1, 1), strides=[3, 2], output_padding=[2, 1]),
    "uneven": dict(kernel=(5, 3), strides=[3, 1], pads=[2, 0, 1, 1]),
    "groups": dict(kernel=(4, 3), strides=[2, 2], pads=[1, 1, 1, 1], group=2),
    "cut deep": dict(kernel=(3, 3), strides=[2, 2], pads=[3, 4, 2, 3]),
    "same upper": dict(kernel=(3, 3), strides=[2, 2], auto_pad="SAME_UPPER"),
    "same lower": dict(kernel=(3, 3), strides=[2, 2], auto_pad="SAME_LOWER"),
    "output shape": dict(kernel=(3, 3), strides=[2, 3], output_shape=[9, 14]),
}


def branch(rng: np.random.Generator, name: str, *, kernel, group=1, **attributes):
    """Return the nodes and weights of a transposed convolution with bias, batch norm and ReLU."""
    weights = {
        "w": rng.normal(size=(6, 8 // group, *kernel), scale=0.3),
        "b": rng.normal(size=8, scale=0.3),
        "gain": rng.uniform(0.5, 1.5, 8),
        "shift": rng.normal(size=8, scale=0.3),
        "mean": rng.normal(size=8, scale=0.3),
        "variance": rng.uniform(0.5, 1.5, 8),
    }
    t, w, b, *norm = (f"{name}/{part}" for part in ("t", *weights))
    nodes = [
        helper.make_node("ConvTranspose", ["x", w, b], [t], group=group, **attributes),
        helper.make_node("BatchNormalization", [t, *norm], [f"{name}/n"]),
        helper.make_node("Relu", [f"{name}/n"], [name]),
    ]
    return nodes, {f"{name}/{part}": array.astype("float32") for part, array in weights.items()}


def test_equals_onnx_runtime():
    rng = np.random.default_rng(3)
    branches = [branch(rng, name, **case) for name, case in CASES.items()]
    nodes = [node for found, _ in branches for node in found]
    weights = {name: array for _, found in branches for name, array in found.items()}
    proto = model(nodes, {"x": (1, 6, 5, 6)}, dict.fromkeys(CASES), weights)
    mod = normalize()(import_onnx(proto))
    assert "nn.conv2d_transpose" not in [operator(value) for _, value in calls(mod["main"])]
    x = rng.normal(size=(1, 6, 5, 6)).astype("float32")
    results = zip(CASES, run_relax(mod, x), run_onnx(proto, x), strict=True)
    for name, found, wanted in results:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=name)


VIDEOS = {
    "k4 s2": dict(kernel=(4, 4, 4), strides=[2, 2, 2], pads=[1] * 6),
    "k2 s2, time alone": dict(kernel=(2, 1, 1), strides=[2, 1, 1]),
    "uneven, groups": dict(kernel=(3, 2, 3), strides=[1, 2, 2], pads=[1, 0, 1, 1, 0, 0], group=2),
    "dilated, cut": dict(kernel=(3, 3, 1), strides=[2, 1, 1], dilations=[2, 2, 1], pads=[1] * 6),
}


def test_videos_equal_onnx_runtime():
    """Three axes; the batch norm and ReLU stand in front of the rearrangement."""
    rng = np.random.default_rng(5)
    cut = {"dilated, cut": (1, 6, 4, 5, 6)}
    for name, case in VIDEOS.items():
        nodes, weights = branch(rng, name, **case)
        x = rng.normal(size=cut.get(name, (1, 6, 3, 4, 3))).astype("float32")
        proto = model(nodes, {"x": x.shape}, {name: None}, weights)
        mod = normalize()(import_onnx(proto))
        operators = [operator(value) for _, value in calls(mod["main"])]
        assert not any("3d" in op for op in operators), name
        last = len(operators) - operators[::-1].index("permute_dims")
        assert not {"nn.relu", "nn.batch_norm", "multiply"}.intersection(operators[last:]), name
        (found,), (wanted,) = run_relax(mod, x), run_onnx(proto, x)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=name)


def scattered(x, w, *, strides, dilations, out, crop, groups):
    """Return a transposed convolution of integers as its definition has it: taps are scattered."""
    n, ic, h, width = x.shape
    _, oc, kh, kw = w.shape
    full = np.zeros((n, oc * groups, *(crop[i] + out[i] + 64 for i in (0, 1))), np.int64)
    for c, o in itertools.product(range(ic), range(oc)):
        channel = c // (ic // groups) * oc + o
        for i, j, p, q in itertools.product(range(h), range(width), range(kh), range(kw)):
            row, column = i * strides[0] + p * dilations[0], j * strides[1] + q * dilations[1]
            full[:, channel, row, column] += x[:, c, i, j] * w[c, o, p, q]
    return full[:, :, crop[0] : crop[0] + out[0], crop[1] : crop[1] + out[1]]


@pytest.mark.parametrize("name", ["k4 s2", "k3 s2 dilated", "groups", "k3 s2 output padding"])
def test_products_are_those_of_the_definition(name):
    """Small whole numbers: float32 sums are exact, whatever their order."""
    given = CASES[name]
    group, kernel = given.get("group", 1), given["kernel"]
    rng = np.random.default_rng(4)
    w = rng.integers(-9, 10, (4, 6 // group, *kernel)).astype("float32")
    attributes = {key: value for key, value in given.items() if key != "kernel"}
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **attributes)
    mod = normalize()(import_onnx(model([node], {"x": (2, 4, 4, 5)}, {"y": None}, {"w": w})))
    x = rng.integers(-9, 10, (2, 4, 4, 5)).astype("float32")
    (found,) = run_relax(mod, x)
    wanted = scattered(
        x.astype(np.int64),
        w.astype(np.int64),
        strides=given["strides"],
        dilations=given.get("dilations", (1, 1)),
        out=found.shape[2:],
        crop=given.get("pads", (0, 0))[:2],
        groups=group,
    )
    np.testing.assert_array_equal(found, wanted)


def transposed() -> tuple[NetworkWriter, relax.Var]:
    """Return a network's writer and the transposed convolution that it begins with."""
    net = NetworkWriter((1, 4, 3, 3))
    return net, net.emit("t", nn.conv2d_transpose(net.x, net.constant(4, 6, 2, 2), strides=2))


FOLLOWERS = {
    "bias": lambda t, net: relax.op.add(t, net.constant(1, 6, 1, 1)),
    "relu": lambda t, net: nn.relu(t),
    "bound": lambda t, net: relax.op.minimum(t, relax.const(1.0, "float32")),
    "slopes": lambda t, net: nn.prelu(t, net.constant(6)),
    "quantize": lambda t, net: relax.op.quantize(t, relax.const(0.5), relax.const(3, "int8")),
}
STAYERS = {
    "a tensor": lambda t, net: relax.op.add(t, net.constant(1, 6, 6, 6)),
    "bounds of channels": lambda t, net: relax.op.maximum(t, net.constant(6, 1, 1)),
    "columns": lambda t, net: relax.op.add(t, net.constant(6)),
    "a product": lambda t, net: relax.op.multiply(t, net.constant(1, 6, 1, 1)),
    "a function": lambda t, net: relax.op.sigmoid(t),
}


def order(mod: tvm.IRModule) -> list[str]:
    original = mod.clone()
    after = LowerTransposedConv()(mod)
    tvm.ir.assert_structural_equal(mod, original)
    relax.analysis.well_formed(after)
    return [operator(value) for _, value in calls(after["main"])]


JOINED = ["reshape", "permute_dims", "reshape"]


@pytest.mark.parametrize("case", FOLLOWERS)
def test_what_follows_element_by_element_is_before_the_rearrangement(case):
    net, t = transposed()
    y = FOLLOWERS[case](t, net)
    found = order(net.module(net.emit("y", y)))
    moved = operator(y)
    pair = ["dequantize", *JOINED, "quantize"] if case == "quantize" else JOINED
    assert found == ["nn.conv2d", moved, *pair]


@pytest.mark.parametrize("case", STAYERS)
def test_what_is_of_one_place_stays_behind_it(case):
    net, t = transposed()
    y = STAYERS[case](t, net)
    assert order(net.module(net.emit("y", y))) == ["nn.conv2d", *JOINED, operator(y)]


def test_what_others_read_too_is_not_moved():
    net, t = transposed()
    relu = net.relu("r", t)
    found = order(net.module(net.emit("y", relax.op.add(relu, t))))
    assert found == ["nn.conv2d", *JOINED, "nn.relu", "add"]


def test_weights_that_are_computed_stay():
    net = NetworkWriter((4, 4, 2, 2))
    mod = net.module(net.emit("y", nn.conv2d_transpose(net.x, net.x)))
    assert order(mod) == ["nn.conv2d_transpose"]


def test_other_layouts_stay():
    net = NetworkWriter((1, 3, 3, 4))
    layouts = {"data_layout": "NHWC", "kernel_layout": "IOHW"}
    mod = net.module(net.emit("y", nn.conv2d_transpose(net.x, net.constant(4, 6, 2, 2), **layouts)))
    assert order(mod) == ["nn.conv2d_transpose"]
