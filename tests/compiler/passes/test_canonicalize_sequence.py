"""Networks over sequences become networks over images of one row, with the same numbers."""

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper
from tvm import relax

from relay_int8.compiler.passes.normalize.canonicalize_sequence import CanonicalizeSequence
from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import FunctionWriter, calls, operator, results, shape
from tests.onnx_models import assert_close, model, run_onnx, run_relax

RNG = np.random.default_rng(0)
F32, I64 = "float32", "int64"
X = RNG.normal(size=(2, 6, 17)).astype(F32)
node = helper.make_node
CONV = node("Conv", ["x", "w"], ["c"], pads=[1, 1])
WEIGHTS = {"w": RNG.normal(size=(6, 6, 3)).astype(F32)}


def normalized(nodes: list[onnx.NodeProto], opset: int = 17, **weights: np.ndarray) -> list[str]:
    """Return the operators of a normalized model that ends in y, compared with ONNX Runtime."""
    proto = model(nodes, {"x": X.shape}, {"y": None}, WEIGHTS | weights, opset)
    mod = normalize()(import_onnx(proto))
    assert [var.name for var in results(mod["main"])] == ["y"]
    assert_close(run_relax(mod, X), run_onnx(proto, X))
    return [operator(value) for _, value in calls(mod["main"])]


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (node("MaxPool", ["x"], ["y"], kernel_shape=[3], strides=[2], pads=[1, 0], dilations=[2]), "nn.max_pool2d"),
        (node("MaxPool", ["x"], ["y"], kernel_shape=[4], strides=[3], ceil_mode=1), "nn.max_pool2d"),
        (node("AveragePool", ["x"], ["y"], kernel_shape=[4], strides=[3], pads=[2, 1]), "nn.avg_pool2d"),
        (node("AveragePool", ["x"], ["y"], kernel_shape=[3], pads=[1, 1], count_include_pad=1), "nn.avg_pool2d"),
        (node("Conv", ["x", "w"], ["y"], strides=[2], pads=[3, 0], dilations=[2]), "nn.conv2d"),
        (node("Conv", ["x", "thin"], ["y"], group=3, auto_pad="SAME_LOWER", strides=[2]), "nn.conv2d"),
    ],
)  # fmt: skip
def test_windows_lie_along_the_row(window: onnx.NodeProto, expected: str):
    thin = RNG.normal(size=(9, 2, 4)).astype(F32)
    assert normalized([window], thin=thin) == ["reshape", expected, "reshape"]


@pytest.mark.parametrize("at", [{}, {"strides": [3], "output_padding": [1]}, {"pads": [0, 2], "strides": [2]}])  # fmt: skip
def test_transposed_convolution(at: dict[str, list[int]]):
    w = RNG.normal(size=(6, 4, 5)).astype(F32)
    nodes = [node("ConvTranspose", ["x", "v"], ["t"], **at), node("Relu", ["t"], ["y"])]
    found = normalized(nodes, v=w)
    assert found[:2] == ["reshape", "nn.conv2d"]
    assert "nn.relu" in found


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        (["Relu"], ["nn.relu"]),
        (["Sigmoid"], ["sigmoid"]),
        (["HardSwish"], ["add", "clip", "divide", "multiply"]),
        (["LeakyRelu"], ["nn.leakyrelu"]),
        ([("PRelu", "slopes")], ["nn.prelu"]),
        ([("Mul", "factors")], ["add"]),
        ([("Sub", "along")], ["subtract"]),
        ([("Mul", "self")], ["multiply"]),
        ([("Add", "x")], ["reshape", "add"]),
        ([("InstanceNormalization", "gammas", "betas")], ["nn.instance_norm"]),
        ([("Pad", "widths")], []),
        ([("Slice", "one", "nine", "last")], ["strided_slice"]),
        ([("Concat", "self", "x")], ["reshape", "concat", "strided_slice"]),
        (["Split"], ["strided_slice", "strided_slice", "add"]),
        (["ReduceMean"], ["nn.avg_pool2d", "multiply"]),
        (["ReduceMax"], ["max", "multiply"]),
    ],
)
def test_nothing_is_reshaped_between_convolutions(between: list, expected: list[str]):
    """What stands between them moves in front of the reshapes, which then meet and are gone."""
    constants = {
        "slopes": RNG.uniform(size=(6, 1)).astype(F32),
        "factors": RNG.uniform(size=(1, 6, 1)).astype(F32),
        "along": RNG.uniform(size=17).astype(F32),
        **{name: RNG.uniform(size=6).astype(F32) for name in ("gammas", "betas")},
        "widths": np.array([0, 0, 2, 0, 0, 1], I64),
        **{name: np.array([k], I64) for name, k in (("one", 1), ("nine", 9), ("last", -1))},
    }
    (step,) = between
    op, *others = (step,) if isinstance(step, str) else step
    inputs = ["c", *("c" if name == "self" else name for name in others)]
    nodes = {
        "Concat": [node(op, inputs, ["j"], axis=-2), *_middle_channels("j", constants)],
        "Split": [node(op, ["c"], ["a", "b"], axis=1), *_halves_joined()],
        "ReduceMean": [node(op, ["c"], ["m"], axes=[-1]), node("Mul", ["c", "m"], ["d"])],
        "ReduceMax": [node("ReduceMax", ["c"], ["m"], axes=[1]), node("Mul", ["m", "c"], ["d"])],
    }.get(op, [node(op, inputs, ["d"])])
    w = {"v": RNG.normal(size=(2, 3 if op == "Split" else 6, 1)).astype(F32)}
    last = node("Conv", ["d", "v"], ["y"])
    found = normalized([CONV, *nodes, last], **constants, **w)
    assert found[0] == found[-1] == "reshape"
    inner = [op for op in found[1:-1] if op != "nn.conv2d"]
    assert inner == [op for op in expected if op != "reshape"]
    assert found.count("nn.conv2d") == 2


def _middle_channels(x: str, constants: dict[str, np.ndarray]) -> list[onnx.NodeProto]:
    constants |= {name: np.array([k], I64) for name, k in (("two", 2), ("eight", 8), ("c1", 1))}
    return [node("Slice", [x, "two", "eight", "c1"], ["d"])]


def _halves_joined() -> list[onnx.NodeProto]:
    return [node("Add", ["a", "b"], ["d"])]


def test_channel_shuffle_needs_no_row():
    """Reshape, permutation and reshape between two images stay the one kernel that they are."""
    dims = {"cut": np.array([2, 2, 3, 17], I64), "whole": np.array([2, 6, 17], I64)}
    nodes = [
        CONV,
        node("Reshape", ["c", "cut"], ["r"]),
        node("Transpose", ["r"], ["t"], perm=[0, 2, 1, 3]),
        node("Reshape", ["t", "whole"], ["s"]),
        node("Conv", ["s", "w"], ["y"]),
    ]
    wanted = ["reshape", "nn.conv2d", "reshape", "permute_dims", "reshape", "nn.conv2d", "reshape"]
    assert normalized(nodes, **dims) == wanted


def test_one_row_images_of_the_file_stay_images():
    """Converters from TensorFlow write a convolution of images between reshapes of their own."""
    axis = {"axis": np.array([2], I64), "b": RNG.normal(size=(6, 1)).astype(F32)}
    wide = RNG.normal(size=(6, 6, 1, 3)).astype(F32)
    nodes = []
    for i, x in enumerate(("x", "r0")):
        nodes += [
            node("Unsqueeze", [x, "axis"], [f"u{i}"]),
            node("Conv", [f"u{i}", "wide"], [f"c{i}"]),
            node("Squeeze", [f"c{i}", "axis"], [f"s{i}"]),
            node("Add", [f"s{i}", "b"], [f"a{i}"]),
            node("Relu", [f"a{i}"], [f"r{i}" if i == 0 else "y"]),
        ]
    layer = ["nn.conv2d", "add", "nn.relu"]
    assert normalized(nodes, wide=wide, **axis) == ["reshape", *layer, *layer, "reshape"]


def test_quantized_weights_keep_their_scales():
    weights = {
        "q": RNG.integers(-127, 127, (4, 6, 3)).astype("int8"),
        "s": RNG.uniform(0.1, 1, 4).astype(F32),
        "z": np.zeros(4, "int8"),
        "step": np.float32(0.25),
        "zero": np.int8(0),
    }
    nodes = [
        node("QuantizeLinear", ["x", "step", "zero"], ["a"]),
        node("DequantizeLinear", ["a", "step", "zero"], ["b"]),
        node("DequantizeLinear", ["q", "s", "z"], ["k"], axis=-3),
        node("Conv", ["b", "k"], ["y"]),
    ]
    found = normalized(nodes, **weights)
    assert found[-4:] == ["quantize", "dequantize", "nn.conv2d", "reshape"]
    assert found.count("quantize") == 3  # of the input, of its image, of the weights


@pytest.mark.fast
def test_what_is_no_sequence_stays():
    """Matrices and images are left alone, a network without sequences is the same module."""
    x = relax.Var("x", relax.TensorType((2, 5, 7), F32))
    writer = FunctionWriter()
    y = writer.emit("y", relax.op.nn.relu(x))
    z = writer.emit("z", relax.op.permute_dims(y, [0, 2, 1]))
    mod = writer.finish([x], [z])
    after = CanonicalizeSequence()(mod)
    tvm.ir.assert_structural_equal(after, mod)


@pytest.mark.fast
def test_other_layouts_stay():
    x = relax.Var("x", relax.TensorType((2, 7, 5), F32))
    w = relax.const(RNG.normal(size=(3, 5, 4)).astype(F32))
    writer = FunctionWriter()
    conv = relax.op.nn.conv1d(x, w, data_layout="NWC", kernel_layout="WIO")
    mod = writer.finish([x], [writer.emit("y", conv)])
    after = CanonicalizeSequence()(mod)
    assert "nn.conv1d" in [operator(value) for _, value in calls(after["main"])]
    assert shape(results(after["main"])[0]) == (2, 5, 4)
