"""MergeBranches: a sum that reads a tensor twice reads it once."""

import numpy as np
import pytest
import tvm
from onnx import NodeProto, helper

from relay_int8.compiler.passes.normalize.fold_affine import FoldAffine
from relay_int8.compiler.passes.normalize.fold_constants import FoldConstants
from relay_int8.compiler.passes.normalize.merge_branches import MergeBranches
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, constant, operator
from tests.onnx_models import assert_close, model, run_onnx, run_relax

RNG = np.random.default_rng(0)
F32 = "float32"
C = 6
X = RNG.normal(size=(2, C, 9, 8)).astype(F32)
node = helper.make_node


def normal(*dims: int, scale: float = 0.3) -> np.ndarray:
    return RNG.normal(scale=scale, size=dims).astype(F32)


WEIGHTS = {
    "w3": normal(C, 1, 3, 3),
    "w5": normal(C, 1, 5, 3),
    "w1": normal(C, 1, 1, 1),
    "b": normal(C),
    "a": RNG.uniform(0.4, 0.7, (1, C, 1, 1)).astype(F32),
    "gamma": RNG.uniform(0.5, 2, C).astype(F32),
    "beta": normal(C),
    "mean": normal(C),
    "var": RNG.uniform(0.1, 3, C).astype(F32),
    "dense": normal(C, C, 3, 3),
    "dense1": normal(C, C, 1, 1),
}


def conv(name: str, w: str, **attrs: object) -> NodeProto:
    x = attrs.pop("x", "x")
    bias = ["b"] if attrs.pop("bias", False) else []
    return node("Conv", [x, w, *bias], [name], **attrs)


def norm(x: str, name: str) -> NodeProto:
    return node("BatchNormalization", [x, "gamma", "beta", "mean", "var"], [name])


def merged(nodes: list[NodeProto], *outputs: str) -> list[str]:
    """Return the operators of the merged network, which computes the same."""
    names = outputs or ("y",)
    used = {name for each in nodes for name in each.input}
    weights = {name: array for name, array in WEIGHTS.items() if name in used}
    proto = model(nodes, {"x": X.shape}, dict.fromkeys(names), weights)
    passes = [FoldConstants(), MergeBranches(), FoldAffine()]
    mod = tvm.transform.Sequential(passes)(import_onnx(proto))
    assert_close(run_relax(mod, X), run_onnx(proto, X))
    return [operator(value) for _, value in calls(mod["main"])]


DEPTHWISE = {"group": C, "pads": [1, 1, 1, 1]}
TALL = {"group": C, "pads": [2, 1, 2, 1]}


@pytest.mark.fast
def test_branches_of_depthwise_windows_are_one():
    nodes = [
        conv("c3", "w3", **DEPTHWISE, bias=True),
        norm("c3", "n3"),
        conv("c5", "w5", **TALL),
        norm("c5", "n5"),
        conv("c1", "w1", group=C),
        norm("x", "n"),
        node("Add", ["n3", "n5"], ["s"]),
        node("Add", ["c1", "s"], ["t"]),
        node("Add", ["t", "n"], ["y"]),
    ]
    assert merged(nodes) == ["nn.conv2d", "add"]


def test_a_network_that_was_not_merged_after_training():
    """y = x + a * (mixer(x) - norm(x)), as FastViT trains its blocks."""
    nodes = [
        conv("c3", "w3", **DEPTHWISE),
        norm("c3", "m"),
        norm("x", "n"),
        node("Sub", ["m", "n"], ["d"]),
        node("Mul", ["d", "a"], ["s"]),
        node("Add", ["x", "s"], ["y"]),
    ]
    assert merged(nodes) == ["nn.conv2d"]  # what both norms add cancels


def test_strided_branches_are_one():
    at = {"group": C, "strides": [2, 2]}
    nodes = [
        conv("c3", "w3", pads=[1, 1, 1, 1], **at),
        conv("c1", "w1", **at),
        node("Add", ["c3", "c1"], ["y"]),
    ]
    assert merged(nodes) == ["nn.conv2d"]


@pytest.mark.parametrize("kernel", ["dense", "dense1"])
def test_a_mixture_with_a_layer_scales_its_weights(kernel: str):
    """y = x + a * (f(relu(x)) - x): f is scaled, and takes (1 - a) * x on."""
    pads = {"pads": [1, 1, 1, 1]} if kernel == "dense" else {}
    nodes = [
        node("Relu", ["x"], ["r"]),
        conv("f", kernel, x="r", bias=True, **pads),
        node("Sub", ["f", "x"], ["d"]),
        node("Mul", ["a", "d"], ["s"]),
        node("Add", ["s", "x"], ["y"]),
    ]
    assert merged(nodes) == ["nn.relu", "nn.conv2d", "add", "multiply", "add"]


def test_a_mixture_of_two_tensors_is_two_products():
    nodes = [
        node("Tanh", ["x"], ["f"]),
        node("Sub", ["f", "x"], ["d"]),
        node("Mul", ["a", "d"], ["s"]),
        node("Add", ["s", "x"], ["y"]),
    ]
    assert merged(nodes) == ["tanh", "multiply", "multiply", "add"]


def test_weights_are_float64_rounded_once():
    nodes = [
        conv("c3", "w3", **DEPTHWISE),
        conv("c5", "w5", **TALL),
        node("Add", ["c3", "c5"], ["y"]),
    ]
    proto = model(
        nodes, {"x": X.shape}, {"y": None}, {name: WEIGHTS[name] for name in ("w3", "w5")}
    )
    ((_, call),) = calls(MergeBranches()(import_onnx(proto))["main"])
    expected = WEIGHTS["w5"].astype("float64")
    expected[:, :, 1:4] += WEIGHTS["w3"]
    assert (constant(call.args[1]) == expected.astype(F32)).all()


def test_a_residual_stays_one():
    """A convolution takes it on without rounding; a one among its weights would round them."""
    nodes = [conv("c3", "w3", **DEPTHWISE), node("Add", ["c3", "x"], ["y"])]
    assert merged(nodes) == ["nn.conv2d", "add"]
    nodes = [conv("c", "dense", pads=[1, 1, 1, 1]), norm("x", "n"), node("Add", ["c", "n"], ["y"])]
    assert merged(nodes).count("nn.conv2d") == 1


def test_a_residual_in_front_of_a_batch_norm_belongs_to_the_convolution():
    """The norm of a sum would be rounded once more (RepViT)."""
    nodes = [conv("c3", "w3", **DEPTHWISE), node("Add", ["c3", "x"], ["s"]), norm("s", "y")]
    assert merged(nodes) == ["nn.conv2d", "add"]


def test_a_network_without_such_sums_is_returned_as_it_is():
    nodes = [
        conv("c3", "w3", **DEPTHWISE),
        node("Relu", ["c3"], ["r"]),
        node("Add", ["r", "x"], ["y"]),
    ]
    mod = import_onnx(model(nodes, {"x": X.shape}, {"y": None}, {"w3": WEIGHTS["w3"]}))
    assert MergeBranches()(mod).same_as(mod)


def test_a_branch_that_something_else_reads_stays():
    nodes = [
        conv("c3", "w3", **DEPTHWISE),
        conv("c1", "w1", group=C),
        node("Add", ["c3", "c1"], ["y"]),
        node("Relu", ["c1"], ["z"]),
    ]
    assert merged(nodes, "y", "z").count("nn.conv2d") == 2


def test_the_module_is_left_alone():
    nodes = [
        conv("c3", "w3", **DEPTHWISE),
        conv("c5", "w5", **TALL),
        node("Add", ["c3", "c5"], ["y"]),
    ]
    proto = model(
        nodes, {"x": X.shape}, {"y": None}, {name: WEIGHTS[name] for name in ("w3", "w5")}
    )
    mod = import_onnx(proto)
    before = mod.script()
    MergeBranches()(mod)
    assert mod.script() == before
