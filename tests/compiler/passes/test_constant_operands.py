"""Constants where activations are the rule: class tokens, masks, biases of a place, offsets."""

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper
from tvm.target import Target

from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import ConfigError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.batch import with_batch, with_open_batch
from relay_int8.graph.dataflow import calls, operator
from relay_int8.graph.groups import find_groups
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.signs import non_negative
from schedules.targets import TARGETS
from tests.onnx_models import assert_close, model, run_onnx
from tests.quantized_networks import QuantizedNetwork, integers_of
from tests.run_built import run_built

X86 = Target({**TARGETS["x86"], "opt-level": 0})  # it is graphs that are tested
RNG = np.random.default_rng(0)
node = helper.make_node


def numbers(*dims: int) -> np.ndarray:
    return RNG.normal(size=dims).astype("float32")


IMAGE, TOKENS = (1, 6, 5, 5), (1, 4, 8)


def around(*nodes: onnx.NodeProto, channels: int = 6, opset: int = 19, **constants: np.ndarray):
    """Return convolution and ReLU, r; ``nodes``, which make t of it; and a convolution."""
    weights = {"w": numbers(6, 6, 3, 3) / 7, "v": numbers(4, channels, 3, 3) / 7, **constants}
    before = [node("Conv", ["x", "w"], ["c"], pads=[1] * 4), node("Relu", ["c"], ["r"])]
    after = [node("Conv", ["t", "v"], ["y"], pads=[1] * 4)]
    return model([*before, *nodes, *after], {"x": IMAGE}, {"y": None}, weights, opset)


def tokens(*nodes: onnx.NodeProto, shape: tuple[int, ...] = TOKENS, **constants: np.ndarray):
    """Return a product, h; ``nodes``, which make t of it; and a product."""
    weights = {"w": numbers(8, 8), "v": numbers(8, 5), **constants}
    before, after = node("MatMul", ["x", "w"], ["h"]), node("MatMul", ["t", "v"], ["y"])
    return model([before, *nodes, after], {"x": shape}, {"y": None}, weights)


MASK = node("Constant", [], ["m"], value=numpy_helper.from_array(RNG.random((1, 1, 5, 5)) > 0.5))


def joined(*names: str, axis: int) -> onnx.NodeProto:
    return node("Concat", names, ["t"], axis=axis)


def pair(op: str, *names: str) -> onnx.NodeProto:
    return node(op, names, ["t"])


NETWORKS = {
    "channels": lambda: around(joined("r", "k", axis=1), k=numbers(1, 2, 5, 5), channels=8),
    "rows": lambda: around(joined("k", "r", axis=-2), k=numbers(1, 6, 2, 5)),
    "several": lambda: around(
        joined("k", "r", "l", "c", axis=1),
        k=numbers(1, 2, 5, 5),
        l=numbers(1, 3, 5, 5),
        channels=17,
    ),
    "class token": lambda: tokens(joined("k", "h", axis=1), k=numbers(1, 1, 8)),
    "five axes": lambda: tokens(
        joined("h", "k", axis=2), shape=(1, 2, 3, 2, 8), k=numbers(1, 2, 1, 2, 8)
    ),
    "constant first in a product": lambda: tokens(pair("MatMul", "k", "h"), k=numbers(1, 3, 4)),
    "constant difference": lambda: around(pair("Sub", "k", "r"), k=numbers(1, 6, 5, 5)),
    "constant minimum": lambda: around(pair("Min", "k", "r"), k=numbers(1, 6, 1, 1)),
    "constant factor": lambda: around(pair("Mul", "k", "r"), k=numbers(1, 1, 5, 1)),
    "product of constants": lambda: tokens(
        node("MatMul", ["k", "w"], ["p"]),
        node("Relu", ["p"], ["q"]),
        node("MatMul", ["q", "w"], ["s"]),
        pair("Add", "h", "s"),
        k=numbers(1, 4, 8),
    ),
    "convolved constant": lambda: around(
        node("Conv", ["k", "w"], ["p"], pads=[1] * 4),
        joined("r", "p", axis=1),
        k=numbers(*IMAGE),
        channels=12,
    ),
    "pooled constant": lambda: around(
        node("MaxPool", ["k"], ["p"], kernel_shape=[1, 1]),
        joined("r", "p", axis=1),
        k=numbers(*IMAGE),
        channels=12,
    ),
    "slopes of rows": lambda: tokens(pair("PRelu", "h", "k"), k=numbers(4, 1)),
}
"""Those that the oracle knows all operators of."""
FLOATS = {
    "masked": lambda: around(MASK, pair("Where", "m", "k", "r"), k=numbers(1, 6, 1, 1)),
    "constant offsets": lambda: around(
        node("DeformConv", ["r", "w", "o"], ["t"], pads=[1] * 4, kernel_shape=[3, 3]),
        o=numbers(1, 18, 5, 5) / 2,
    ),
}


def run(mod: tvm.IRModule, x: np.ndarray) -> np.ndarray:
    return virtual_machine(compile_module(mod, X86))["main"](tvm.runtime.tensor(x)).numpy()


@pytest.mark.parametrize("name", [*NETWORKS, *FLOATS])
def test_float(name):
    proto = {**NETWORKS, **FLOATS}[name]()
    mod = normalize()(import_onnx(proto))
    x = numbers(*[d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim])
    expected = run_onnx(proto, x)
    assert_close([run(mod, x)], expected)
    assert_close([NumpyNetwork(mod).run({"x": x})["y"]], expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_integers_around_it(name):
    network = QuantizedNetwork.make(normalize()(import_onnx(NETWORKS[name]())))
    products = [layer for layer in network.plan.layers if layer.kind in ("conv2d", "dense")]
    assert sum(layer.integer for layer in products) >= 2
    found = run_built(compile_module(network.mod, X86), network.inputs)
    compared = {name: wanted for name, wanted in integers_of(network).items() if name in found}
    assert len(compared) >= 2
    for name, wanted in compared.items():
        actual = found[name].reshape(wanted.shape)
        np.testing.assert_array_equal(actual, wanted, err_msg=name)
    np.testing.assert_array_equal(found["outputs:0"], network.expected["y"])


@pytest.mark.fast
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("class token", "one of its operands is a constant"),
        ("convolved constant", "one of its operands is a constant"),
        ("constant first in a product", None),
    ],
)
def test_reasons(name, reason):
    plan = annotate(normalize()(import_onnx(NETWORKS[name]())), QuantConfig())
    layers = {layer.name: layer.reason for layer in plan.layers}
    assert layers["t"] == reason
    assert "p" not in layers, "what reads constants alone is computed"


@pytest.mark.fast
def test_constants_without_activations_are_computed():
    mod = normalize()(import_onnx(NETWORKS["product of constants"]()))
    assert [operator(value) for _, value in calls(mod["main"])] == ["matmul", "add", "matmul"]


@pytest.mark.fast
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("op", ["Add", "Mul", "Min", "Concat"])
def test_a_constant_below_zero_may_make_a_result_negative(op, sign):
    k = sign * np.abs(numbers(*IMAGE)) - np.float32(0.01 * (sign < 0))
    joins = {"channels": 12} if op == "Concat" else {}
    step = joined("k", "r", axis=1) if op == "Concat" else pair(op, "k", "r")
    groups = find_groups(normalize()(import_onnx(around(step, k=k, **joins)))["main"])
    assert ("t" in {str(var.name) for var in non_negative(groups)}) == (sign > 0)


@pytest.mark.fast
@pytest.mark.parametrize("fill", [1.0, -2.0])
def test_a_pad_below_zero_may_make_a_result_negative(fill):
    widths = np.array([0, 0, 1, 1] * 2, np.int64)
    proto = around(node("Pad", ["r", "p", "k"], ["t"]), p=widths, k=np.float32(fill))
    groups = find_groups(normalize()(import_onnx(proto))["main"])
    names = {str(var.name) for var in non_negative(groups)}
    assert "r" in names and ("t" in names) == (fill >= 0)


def test_a_class_token_joins_every_image_of_a_batch():
    proto = around(joined("k", "r", axis=1), k=numbers(1, 2, 5, 5), channels=8)
    mod = normalize()(import_onnx(proto))
    images = [numbers(*IMAGE) for _ in range(3)]
    expected = np.concatenate([run_onnx(proto, image)[0] for image in images])
    batch = np.concatenate(images)
    assert_close([run(with_batch(mod, 3), batch)], [expected])
    assert_close([run(with_open_batch(mod, 4), batch)], [expected])


def test_a_batch_of_constants_becomes_another_batch():
    k = numbers(1, 1, 8)
    proto = tokens(joined("k", "h", axis=1), shape=(2, 4, 8), k=k.repeat(2, axis=0))
    mod = normalize()(import_onnx(proto))
    x = numbers(*TOKENS)
    expected = run_onnx(proto, x.repeat(2, axis=0))[0][:1]
    assert_close([run(with_batch(mod, 1), x)], [expected])
    differing = tokens(joined("k", "h", axis=1), shape=(2, 4, 8), k=numbers(2, 1, 8))
    with pytest.raises(ConfigError, match="differs from image to image"):
        with_batch(normalize()(import_onnx(differing)), 1)


def test_masks_of_constants_are_computed():
    """As exporters write those of shifted windows: indices wrapped, regions numbered, compared."""
    ints = {
        "i": np.array([[-1], [0]], np.int64),
        "zero": np.zeros(1, np.int64),
        "starts": np.array([-1], np.int64),
        "ends": np.array([-9], np.int64),
        "axis": np.array([0], np.int64),
        "order": np.array([2, 0, 3, 1], np.int64),
    }
    floats = {"k": numbers(4, 8), "u": numbers(2, 8), "hundred": np.float32(-100)}
    proto = tokens(
        node("Shape", ["k"], ["sizes"], end=1),
        node("Add", ["i", "sizes"], ["moved"]),
        node("Less", ["i", "zero"], ["below"]),
        node("Where", ["below", "moved", "i"], ["wrapped"]),
        node("ScatterND", ["k", "wrapped", "u"], ["regions"]),
        node("Slice", ["regions", "starts", "ends", "axis", "starts"], ["turned"]),
        node("Gather", ["turned", "order"], ["rows"], axis=0),
        node("Equal", ["rows", "k"], ["same"]),
        node("Not", ["same"], ["other"]),
        node("Where", ["other", "hundred", "rows"], ["mask"]),
        pair("Add", "h", "mask"),
        **ints,
        **floats,
    )
    mod = normalize()(import_onnx(proto))
    assert [operator(value) for _, value in calls(mod["main"])] == ["matmul", "add", "matmul"]
    x = numbers(*TOKENS)
    assert_close([run(mod, x)], run_onnx(proto, x))
