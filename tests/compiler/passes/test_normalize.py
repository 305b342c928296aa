"""The normalizing passes one by one, and all of them on networks."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper
from tvm import relax

from relay_int8.compiler.pipeline import normalize_passes
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import (
    FunctionWriter,
    arguments,
    calls,
    constant,
    operator,
    results,
    shape,
)
from tests.onnx_models import assert_close, model, run_onnx, run_relax

MODELS = Path(__file__).parents[4] / "shared" / "data" / "models"
RNG = np.random.default_rng(0)
F32, I64 = "float32", "int64"
X = RNG.normal(size=(1, 3, 8, 8)).astype(F32) * 4
W = RNG.normal(size=(4, 3, 3, 3)).astype(F32)
node = helper.make_node


def normalize(mod: tvm.IRModule) -> tvm.IRModule:
    return tvm.transform.Sequential(normalize_passes())(mod)


def ops(mod: tvm.IRModule) -> list[str]:
    return [operator(value) for _, value in calls(mod["main"])]


def check(proto: onnx.ModelProto, expected: list[str], x: np.ndarray = X) -> tvm.IRModule:
    """Normalize, compare the operators and the values, and return the module."""
    mod = normalize(import_onnx(proto))
    relax.analysis.well_formed(mod)
    assert ops(mod) == expected
    names = [value.name for value in proto.graph.output]
    assert [var.name for var in results(mod["main"])] == names
    assert_close(run_relax(mod, x), run_onnx(proto, x))
    return mod


def last(mod: tvm.IRModule) -> relax.Call:
    return list(calls(mod["main"]))[-1][1]


def chain(*nodes: onnx.NodeProto, opset: int = 13, **weights: np.ndarray) -> onnx.ModelProto:
    return model(nodes, {"x": X.shape}, {"y": None}, weights, opset)


SAME = {"eight": np.array([1, 3, 8, 8], I64), "one": np.ones((1, 3, 1, 1), F32), "p": np.zeros(8, I64)}  # fmt: skip


@pytest.mark.fast
@pytest.mark.parametrize(
    "no_op",
    [
        node("Identity", ["r"], ["i"]),
        node("Dropout", ["r"], ["i"]),
        node("Reshape", ["r", "eight"], ["i"]),
        node("Transpose", ["r"], ["i"], perm=[0, 1, 2, 3]),
        node("Mul", ["r", "one"], ["i"]),
        node("Div", ["r", "one"], ["i"]),
        node("Pad", ["r", "p"], ["i"]),
        node("Concat", ["r"], ["i"], axis=1),
        node("AveragePool", ["r"], ["i"], kernel_shape=[1, 1]),
        node("Cast", ["r"], ["i"], to=1),
    ],
    ids=lambda n: n.op_type,
)
def test_no_op_disappears(no_op: onnx.NodeProto):
    nodes = [node("Relu", ["x"], ["r"]), no_op, node("Sigmoid", ["i"], ["y"])]
    check(model(nodes, {"x": X.shape}, {"y": None}, SAME, 13), ["nn.relu", "sigmoid"])


def test_no_op_at_the_end_leaves_its_name():
    mod = check(
        chain(node("Relu", ["x"], ["r"]), node("Mul", ["r", "k"], ["y"]), k=np.float32(1)),
        ["nn.relu"],
    )
    assert [var.name for var in results(mod["main"])] == ["y"]


def test_no_op_that_broadcasts_stays():
    nodes = [node("Relu", ["x"], ["r"]), node("Mul", ["r", "k"], ["y"])]
    check(chain(*nodes, k=np.ones((2, 3, 8, 8), F32)), ["nn.relu", "multiply"])


def test_stride_is_no_identity():
    indices = {"s": np.array([0], I64), "e": np.array([99], I64), "a": np.array([2], I64)}
    steps = {"step": np.array([-1], I64)}
    check(
        chain(node("Slice", ["x", "s", "e", "a"], ["i"]), node("Relu", ["i"], ["y"]), **indices),
        ["nn.relu"],
    )
    reverse = {"s": np.array([99], I64), "e": np.array([-99], I64), "a": np.array([2], I64)}
    check(
        chain(node("Slice", ["x", "s", "e", "a", "step"], ["y"]), **reverse, **steps),
        ["strided_slice"],
    )


@pytest.mark.parametrize(
    ("nodes", "expected", "bounds"),
    [
        ([node("Clip", ["x", "zero", "six"], ["y"])], "clip", (0, 6)),
        ([node("Max", ["x", "zero"], ["m"]), node("Min", ["six", "m"], ["y"])], "clip", (0, 6)),
        ([node("Relu", ["x"], ["m"]), node("Min", ["m", "six"], ["y"])], "clip", (0, 6)),
        ([node("Clip", ["x", "two", "six"], ["m"]), node("Relu", ["m"], ["y"])], "clip", (2, 6)),
        ([node("Clip", ["x", "zero"], ["y"])], "nn.relu", None),
        ([node("Relu", ["x"], ["m"]), node("Relu", ["m"], ["y"])], "nn.relu", None),
        ([node("Clip", ["x", "", "six"], ["y"])], "minimum", None),
        ([node("Clip", ["x", "two"], ["m"]), node("Relu", ["m"], ["y"])], "maximum", None),
        ([node("PRelu", ["x", "two"], ["y"])], "nn.leakyrelu", None),
        ([node("PRelu", ["x", "three"], ["y"])], "nn.prelu", None),
    ],
)  # fmt: skip
def test_bounds_are_one_activation(nodes, expected: str, bounds: tuple[int, int] | None):
    limits = {"zero": np.float32(0), "two": np.float32(2), "six": np.float32(6)}
    slopes = {"three": np.array([0.1, 0.2, 0.3], F32).reshape(3, 1, 1)}
    mod = check(chain(*nodes, **limits, **slopes), [expected])
    if bounds:
        assert tuple(bound.value for bound in last(mod).args[1:]) == bounds


def test_half_open_clip_is_relu():
    x = relax.Var("x", relax.TensorType((2, 3), F32))
    writer = FunctionWriter()
    y = writer.emit("y", relax.op.clip(x, relax.prim_value(0.0), relax.prim_value(float("inf"))))
    assert ops(normalize(writer.finish([x], [y]))) == ["nn.relu"]


def test_shared_relu_is_not_merged():
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Min", ["r", "k"], ["m"]),
        node("Add", ["r", "m"], ["y"]),
    ]
    check(chain(*nodes, k=np.float32(2)), ["nn.relu", "minimum", "add"])


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([node("GlobalAveragePool", ["x"], ["y"])], ["nn.avg_pool2d"]),
        ([node("GlobalMaxPool", ["x"], ["y"])], ["nn.max_pool2d"]),
        ([node("ReduceMean", ["x"], ["y"], axes=[-1, 2])], ["nn.avg_pool2d"]),
        ([node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)], ["nn.avg_pool2d", "reshape"]),
        ([node("ReduceMean", ["x"], ["y"], axes=[1])], ["mean"]),
    ],
)
def test_reduction_over_image_is_pooling(nodes, expected: list[str]):
    mod = check(chain(*nodes), expected)
    if expected[0] != "mean":
        pool = next(iter(calls(mod["main"])))[1]
        assert list(pool.attrs.pool_size) == [8, 8]


@pytest.mark.fast
def test_reshapes_are_one():
    nodes = [
        node("GlobalAveragePool", ["x"], ["g"]),
        node("Squeeze", ["g", "hw"], ["s"]),
        node("Unsqueeze", ["s", "zero"], ["u"]),
        node("Transpose", ["u"], ["t"], perm=[1, 0, 2]),
        node("Flatten", ["t"], ["y"]),
    ]
    mod = check(
        chain(*nodes, hw=np.array([2, 3], I64), zero=np.array([0], I64)),
        ["nn.avg_pool2d", "reshape"],
    )
    assert shape(last(mod)) == (1, 3)


def test_transpose_that_moves_data_stays():
    nodes = [node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]), node("Flatten", ["t"], ["y"])]
    check(chain(*nodes), ["permute_dims", "reshape"])


def padded_conv(**attributes) -> list[onnx.NodeProto]:
    return [
        node("Pad", ["x", "p", "v"], ["q"], **attributes),
        node("Conv", ["q", "w"], ["y"], pads=[1, 0, 0, 1]),
    ]


@pytest.mark.fast
def test_zero_pad_is_the_convolutions():
    widths = np.array([0, 0, 1, 2, 0, 0, 3, 0], I64)
    mod = check(chain(*padded_conv(), p=widths, v=np.float32(0), w=W), ["nn.conv2d"])
    assert list(last(mod).attrs.padding) == [2, 2, 3, 1]


@pytest.mark.parametrize(
    ("widths", "value", "mode"),
    [
        ([0, 0, 1, 2, 0, 0, 3, 0], 1.0, "constant"),
        ([0, 0, 1, 1, 0, 0, 1, 1], 0.0, "reflect"),
        ([1, 0, 1, 1, 0, 0, 1, 1], 0.0, "constant"),
    ],
)
def test_other_pads_stay(widths: list[int], value: float, mode: str):
    proto = chain(*padded_conv(mode=mode), p=np.array(widths, I64), v=np.float32(value), w=W)
    check(proto, ["nn.pad", "nn.conv2d"])


def test_constants_fold_in_double_precision():
    a, b = np.float32(1) / np.float32(3), np.float32(1e-8)
    nodes = [
        node("Add", ["a", "b"], ["s"]),
        node("Sub", ["s", "a"], ["d"]),
        node("Mul", ["x", "d"], ["y"]),
    ]
    mod = normalize(import_onnx(chain(*nodes, a=np.full((3, 1, 1), a), b=np.full((3, 1, 1), b))))
    expected = np.float32(np.float64(a) + np.float64(b) - np.float64(a))
    np.testing.assert_array_equal(constant(last(mod).args[1]), np.full((3, 1, 1), expected))


@pytest.mark.parametrize("dims", [(1, 3, 8, 8), (5, 3), (1, 3, 2, 3, 4)])
def test_lone_batch_norm_is_depthwise(dims: tuple[int, ...]):
    x = RNG.normal(size=dims).astype(F32)
    statistics = {name: RNG.uniform(0.5, 2, 3).astype(F32) for name in "gbmv"}
    nodes = [
        node("BatchNormalization", ["x", "g", "b", "m", "v"], ["n"]),
        node("Relu", ["n"], ["y"]),
    ]
    first = "nn.conv2d" if len(dims) == 4 else "multiply"
    proto = model(nodes, {"x": dims}, {"y": None}, statistics)
    mod = check(proto, [first, "add", "nn.relu"], x)
    assert [var.name for var, _ in calls(mod["main"])][1:] == ["n", "y"]


STEP = {"step": np.float32(0.25), "zero": np.int8(0)}
PAIR = ["quantize", "dequantize"]


def pair_of(x: str) -> list[onnx.NodeProto]:
    """Quantize and dequantize an activation, without which integers are but a way to store weights."""
    return [
        node("QuantizeLinear", [x, "step", "zero"], ["x:q"]),
        node("DequantizeLinear", ["x:q", "step", "zero"], ["x:dq"]),
    ]


def test_quantized_weights_stay_behind_their_pair():
    weights = {
        "q": RNG.integers(-127, 127, (4, 3, 3, 3)).astype("int8"),
        "s": np.float32(0.1),
        "z": np.int8(0),
    }
    nodes = [node("DequantizeLinear", ["q", "s", "z"], ["w"]), node("Conv", ["x:dq", "w"], ["y"])]
    check(chain(*pair_of("x"), *nodes, **weights, **STEP), [*PAIR, *PAIR, "nn.conv2d"])


def test_quantized_bias_becomes_real():
    weights = {
        "q": RNG.integers(-127, 127, (4, 3, 3, 3)).astype("int8"),
        "s": np.float32(0.1),
        "z": np.int8(0),
    }
    bias = {
        "bq": RNG.integers(-(10**6), 10**6, 4).astype("int32"),
        "bs": RNG.uniform(0.1, 1, 4).astype(F32),
        "bz": np.zeros(4, "int32"),
    }
    nodes = [
        node("DequantizeLinear", ["q", "s", "z"], ["w"]),
        node("DequantizeLinear", ["bq", "bs", "bz"], ["b"], axis=0),
        node("Conv", ["x:dq", "w", "b"], ["y"]),
    ]
    proto = chain(*pair_of("x"), *nodes, **weights, **bias, **STEP)
    mod = check(proto, [*PAIR, *PAIR, "nn.conv2d", "add"])
    expected = (bias["bq"].astype("float64") * bias["bs"]).astype(F32)
    np.testing.assert_array_equal(constant(last(mod).args[1]), expected.reshape(1, 4, 1, 1))


def test_quantized_gemm_weights_are_transposed():
    weights = {
        "q": RNG.integers(-127, 127, (5, 192)).astype("int8"),
        "s": RNG.uniform(0.1, 1, 5).astype(F32),
        "z": np.zeros(5, "int8"),
    }
    nodes = [
        node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=0),
        node("Gemm", ["x:dq", "w"], ["y"], transB=1),
    ]
    proto = chain(node("Flatten", ["x"], ["f"]), *pair_of("f"), *nodes, **weights, **STEP)
    mod = check(proto, ["reshape", *PAIR, *PAIR, "matmul"])
    w = [value for _, value in calls(mod["main"]) if operator(value) == "quantize"][-1]
    steps = constant(w.args[0]).astype("float64") / weights["s"]
    np.testing.assert_array_equal(np.rint(steps), weights["q"].T)
    assert w.attrs.axis == 1


@pytest.mark.skipif(not MODELS.is_dir(), reason=f"{MODELS} is not there")
@pytest.mark.parametrize(
    "name",
    [
        "mobilenetv1_0.25_224_imagenet",
        "resnet20_cifar10",
        "resnet8_cifar10_mlperftiny",
        "squeezenet1.1_imagenet",
        "ultraface_rfb_320",
        "vww_mobilenetv1_0.25_96",
    ],
)
def test_real_networks(name: str):
    proto = onnx.load(MODELS / f"{name}.onnx")
    mod = normalize(import_onnx(proto, batch=1))
    main = mod["main"]
    x = RNG.normal(size=shape(main.params[0])).astype(F32)
    assert_close(run_relax(mod, x), run_onnx(proto, x))

    count = Counter(ops(mod))
    assert count["nn.conv2d"] == sum(n.op_type == "Conv" for n in proto.graph.node)
    assert count["nn.batch_norm"] == count["mean"] == 0
    tensors = {out for n in proto.graph.node for out in n.output}
    for var, value in calls(main):
        assert var.name in tensors or var.name.rsplit("/", 1)[0] in tensors
        leaves = (
            relax.Var | tvm.ir.GenericConst | relax.ShapeExpr | tvm.tirx.IntImm | tvm.tirx.FloatImm
        )
        assert all(isinstance(argument, leaves) for argument in arguments(value))


def test_what_is_computed_of_dequantized_constants_is_a_constant():
    weights = {"q": np.arange(3, dtype="int8"), "s": np.float32(0.5), "z": np.int8(1)}
    proto = chain(
        node("DequantizeLinear", ["q", "s", "z"], ["real"]),
        node("Reshape", ["real", "shape"], ["apart"]),
        node("QuantizeLinear", ["x", "s", "z"], ["x_q"]),
        node("DequantizeLinear", ["x_q", "s", "z"], ["x_dq"]),
        node("Where", ["which", "x_dq", "apart"], ["y"]),
        **weights,
        shape=np.array([3, 1, 1]),
        which=RNG.uniform(size=(3, 8, 8)) < 0.5,
    )
    assert "reshape" not in ops(normalize(import_onnx(proto)))
