"""FoldAffine: a * c + b behind constant weights is other weights and a bias."""

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

from relay_int8.compiler.passes.normalize.fold_affine import FoldAffine
from relay_int8.compiler.passes.normalize.fold_constants import FoldConstants
from relay_int8.compiler.pipeline import normalized
from relay_int8.errors import FrontendError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, constant, operator
from tests.onnx_models import assert_close, model, run_onnx, run_relax

RNG = np.random.default_rng(0)
F32 = "float32"
X = RNG.normal(size=(2, 4, 5, 5)).astype(F32)
W = RNG.normal(size=(6, 2, 3, 3)).astype(F32)
STATISTICS = {
    "gamma": RNG.uniform(0.5, 2, 6).astype(F32),
    "beta": RNG.normal(size=6).astype(F32),
    "mean": RNG.normal(size=6).astype(F32),
    "var": RNG.uniform(0.1, 3, 6).astype(F32),
}
node = helper.make_node
CONV = node("Conv", ["x", "w", "b"], ["c"], group=2)
NORM = node("BatchNormalization", ["c", "gamma", "beta", "mean", "var"], ["n"], epsilon=1e-3)
WEIGHTS = {"w": W, "b": RNG.normal(size=6).astype(F32), **STATISTICS}


def fold(mod: tvm.IRModule) -> tvm.IRModule:
    return tvm.transform.Sequential([FoldConstants(), FoldAffine()])(mod)


def found(mod: tvm.IRModule) -> list[tuple[str, str]]:
    return [(var.name, operator(value)) for var, value in calls(mod["main"])]


@pytest.mark.fast
def test_whole_chain_is_one_convolution_with_bias():
    k = RNG.uniform(1, 2, (6, 1, 1)).astype(F32)
    nodes = [
        CONV,
        NORM,
        node("Mul", ["n", "k"], ["m"]),
        node("Sub", ["two", "m"], ["s"]),
        node("Div", ["s", "k"], ["d"]),
        node("Add", ["d", "two"], ["a"]),
        node("Relu", ["a"], ["y"]),
    ]
    proto = model(nodes, {"x": X.shape}, {"y": None}, {**WEIGHTS, "k": k, "two": np.float32(2)})
    mod = fold(import_onnx(proto))
    assert found(mod) == [("a/conv2d", "nn.conv2d"), ("a", "add"), ("y", "nn.relu")]
    assert_close(run_relax(mod, X), run_onnx(proto, X))


def test_weights_are_float64_rounded_once():
    mod = fold(import_onnx(model([CONV, NORM], {"x": X.shape}, {"n": None}, WEIGHTS)))
    (_, conv), (_, add) = calls(mod["main"])
    s = {key: a.astype("float64") for key, a in WEIGHTS.items()}
    epsilon = np.float64(np.float32(1e-3))
    scale = s["gamma"] / np.sqrt(s["var"] + epsilon)
    bias = s["b"] * scale + (s["beta"] - s["mean"] * scale)
    np.testing.assert_array_equal(
        constant(conv.args[1]), (s["w"] * scale[:, None, None, None]).astype(F32)
    )
    np.testing.assert_array_equal(constant(add.args[1]), bias.astype(F32).reshape(1, 6, 1, 1))


@pytest.mark.parametrize("bias_shape", [(6,), (1, 6), (1,)])
def test_matmul_bias_is_a_vector(bias_shape: tuple[int, ...]):
    weights = {"k": RNG.normal(size=(6, 4)).astype(F32), "b": np.ones(bias_shape, F32)}
    gemm = node("Gemm", ["x", "k", "b"], ["y"], alpha=0.5, beta=3.0, transB=1)
    x = RNG.normal(size=(3, 4)).astype(F32)
    proto = model([gemm], {"x": x.shape}, {"y": None}, weights)
    mod = fold(import_onnx(proto))
    (_, matmul), (_, add) = calls(mod["main"])
    assert constant(matmul.args[1]).shape == (4, 6)
    np.testing.assert_array_equal(constant(add.args[1]), np.full(6, 3, F32))
    assert_close(run_relax(mod, x), run_onnx(proto, x))


@pytest.mark.parametrize("turned", [False, True])
def test_factors_of_channels_behind_a_product_of_an_images_rows(turned: bool):
    """As ConvNeXt has them: in front of the permutation to channels first, or behind it."""
    weights = {"k": RNG.normal(size=(5, 6)).astype(F32), "b": RNG.normal(size=6).astype(F32)}
    weights["gamma"] = RNG.normal(size=(6, 1, 1) if turned else 6).astype(F32)
    nodes = [node("MatMul", ["x", "k"], ["m"]), node("Add", ["b", "m"], ["s"])]
    if turned:
        nodes += [node("Transpose", ["s"], ["t"], perm=[0, 3, 1, 2])]
        nodes += [node("Mul", ["gamma", "t"], ["y"])]
    else:
        nodes += [node("Mul", ["gamma", "s"], ["t"])]
        nodes += [node("Transpose", ["t"], ["y"], perm=[0, 3, 1, 2])]
    x = RNG.normal(size=(1, 3, 4, 5)).astype(F32)
    proto = model(nodes, {"x": x.shape}, {"y": None}, weights)
    mod = fold(import_onnx(proto))
    kinds = [operator(value) for var, value in calls(mod["main"]) if var.name != "s"]
    assert "multiply" not in kinds
    assert_close(run_relax(mod, x), run_onnx(proto, x))


def test_a_constant_along_rows_is_none_of_channels():
    weights = {"k": RNG.normal(size=(5, 6)).astype(F32), "r": np.full((3, 1, 1), 2, F32)}
    nodes = [node("MatMul", ["x", "k"], ["m"]), node("Mul", ["m", "r"], ["y"])]
    x = RNG.normal(size=(1, 3, 4, 5)).astype(F32)
    proto = model(nodes, {"x": x.shape}, {"y": None}, weights)
    mod = fold(import_onnx(proto))
    assert [operator(value) for _, value in calls(mod["main"])] == ["matmul", "multiply"]
    assert_close(run_relax(mod, x), run_onnx(proto, x))


def test_shared_convolution_ends_the_chain():
    nodes = [CONV, NORM, node("Add", ["c", "n"], ["y"])]
    mod = fold(import_onnx(model(nodes, {"x": X.shape}, {"y": None}, WEIGHTS)))
    assert "nn.batch_norm" in dict(map(reversed, found(mod)))


def test_returned_convolution_ends_the_chain():
    mod = fold(import_onnx(model([CONV, NORM], {"x": X.shape}, {"n": None, "c": None}, WEIGHTS)))
    assert "nn.batch_norm" in dict(map(reversed, found(mod)))


@pytest.mark.parametrize("shape", [(2, 6, 3, 3), (1, 1, 3, 1), (2, 1, 1, 1)])
def test_constant_that_is_not_per_channel_stays(shape: tuple[int, ...]):
    nodes = [node("Conv", ["x", "w"], ["c"], group=2), node("Mul", ["c", "k"], ["y"])]
    weights = {"w": W, "k": np.full(shape, 2, F32)}
    mod = fold(import_onnx(model(nodes, {"x": X.shape}, {"y": None}, weights)))
    assert found(mod) == [("c", "nn.conv2d"), ("y", "multiply")]


def test_negative_variance_is_refused():
    weights = {**WEIGHTS, "var": np.full(6, -1, F32)}
    mod = import_onnx(model([CONV, NORM], {"x": X.shape}, {"n": None}, weights))
    with pytest.raises(FrontendError, match=r"batch norm n: a variance of -1\.0"):
        fold(mod)


def test_input_is_left_alone():
    mod = import_onnx(model([CONV, NORM], {"x": X.shape}, {"n": None}, WEIGHTS))
    before = mod.clone()
    FoldAffine()(mod)
    tvm.ir.assert_structural_equal(mod, before)
    relax.analysis.well_formed(fold(mod))


@pytest.mark.parametrize("back", [True, False])
def test_a_batch_norm_of_tokens_is_folded_through_reshapes(back: bool):
    """LeViT normalizes (batch * tokens, channels) behind its dense layers."""
    w = RNG.normal(size=(4, 6)).astype(F32)
    shapes = {"flat": np.array([10, 6]), "apart": np.array([2, 5, 6])}
    nodes = [
        node("MatMul", ["x", "w"], ["d"]),
        node("Reshape", ["d", "flat"], ["c"]),
        NORM,
        *([node("Reshape", ["n", "apart"], ["b"])] if back else []),
        node("Relu", ["b" if back else "n"], ["y"]),
    ]
    x = RNG.normal(size=(2, 5, 4)).astype(F32)
    proto = model(nodes, {"x": x.shape}, {"y": None}, {"w": w, **STATISTICS, **shapes})
    mod = fold(import_onnx(proto))
    names = [name for _, name in found(mod)]
    assert names == ["matmul", "add", *([] if back else ["reshape"]), "nn.relu"]
    assert_close(run_relax(mod, x), run_onnx(proto, x))


def test_a_reshape_that_moves_channels_ends_the_chain():
    w = RNG.normal(size=(4, 6)).astype(F32)
    nodes = [
        node("MatMul", ["x", "w"], ["d"]),
        node("Reshape", ["d", "dims"], ["r"]),
        node("Mul", ["r", "k"], ["y"]),
    ]
    x = RNG.normal(size=(2, 5, 4)).astype(F32)
    constants = {"w": w, "dims": np.array([2, 10, 3]), "k": RNG.normal(size=3).astype(F32)}
    proto = model(nodes, {"x": x.shape}, {"y": None}, constants)
    mod = fold(import_onnx(proto))
    assert "multiply" in [name for _, name in found(mod)]
    assert_close(run_relax(mod, x), run_onnx(proto, x))


def quantized_layer(gamma: float, bias: float) -> tvm.IRModule:
    """Return a batch norm behind a convolution of int8 weights, of which one is -128."""
    w = np.full((6, 2, 3, 3), 4, "int8")
    w[0, 0, 0, 0] = -128
    statistics = {name: np.ones(6, F32) for name in ("gamma", "mean", "var")}
    statistics["gamma"][0] = gamma
    weights = {"q": w, "s": np.full(6, 0.01, F32), "z": np.zeros((), "int8"), "t": np.float32(0.1)}
    weights |= {"zw": np.zeros(6, "int8"), "b": np.zeros(6, F32), "beta": np.full(6, bias, F32)}
    nodes = [
        node("QuantizeLinear", ["x", "t", "z"], ["xq"]),
        node("DequantizeLinear", ["xq", "t", "z"], ["xd"]),
        node("DequantizeLinear", ["q", "s", "zw"], ["w"], axis=0),
        node("Conv", ["xd", "w", "b"], ["c"], group=2),
        NORM,
    ]
    proto = model(nodes, {"x": X.shape}, {"n": None}, weights | statistics)
    return normalized(import_onnx(proto))[0]


@pytest.mark.parametrize(("gamma", "bias"), [(-0.5, 1.0), (1e-9, 1.0)])
def test_integers_that_would_not_fit_stay(gamma, bias):
    """128 is no int8; a bias of a channel that is nearly dead has more than 31 bits."""
    layers = [value for _, value in calls(quantized_layer(gamma, bias)["main"])]
    assert [operator(layer) for layer in layers].count("nn.conv2d") == 2


def test_factors_of_integers_are_folded_into_scales():
    mod = quantized_layer(0.5, 1.0)
    layers = [value for _, value in calls(mod["main"])]
    assert [operator(layer) for layer in layers].count("nn.conv2d") == 1
    scales = [constant(layer.args[1]) for layer in layers if operator(layer) == "dequantize"]
    factors = np.array([0.5, 1, 1, 1, 1, 1]) / np.sqrt(1.001)
    np.testing.assert_allclose(scales[-1], 0.01 * factors, rtol=1e-6)
