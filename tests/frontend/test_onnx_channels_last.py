"""Operators of com.microsoft on images whose channels are last, beside standard ones."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, operator
from tests.frontend.test_onnx_fused import MS, f32, fused
from tests.mxnet_models import run_fast
from tests.onnx_models import assert_close, model, run_onnx

RNG = np.random.default_rng(4)
IMAGE, GAMMA, BETA = f32(1, 6, 5, 8), f32(8), f32(8)


def group_norm(x: np.ndarray) -> np.ndarray:
    """Two groups, then x * sigmoid(x)."""
    groups = x.reshape(1, 30, 2, 4)
    apart = groups - groups.mean((1, 3), keepdims=True)
    y = (apart / np.sqrt((apart**2).mean((1, 3), keepdims=True) + 1e-5)).reshape(x.shape)
    y = y * GAMMA + BETA
    return y / (1 + np.exp(-y))


def test_a_convolution_has_its_input_channels_last_too():
    w, b = f32(4, 3, 3, 8), f32(4)
    how = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    plain = model(
        [helper.make_node("Conv", ["x", "w", "b"], ["y"], **how)],
        {"x": (1, 8, 6, 5)},
        {"y": None},
        {"w": w.transpose(0, 3, 1, 2).copy(), "b": b},
    )
    expected = run_onnx(plain, IMAGE.transpose(0, 3, 1, 2).copy())[0].transpose(0, 2, 3, 1)
    proto = fused("NhwcConv", {"x": IMAGE, "w": w, "b": b}, constants=("w", "b"), **how)
    assert_close(run_fast(import_onnx(proto), IMAGE), [expected])


@pytest.mark.parametrize("skip_shape", [(1, 8), (1, 1, 1, 8), (1, 6, 5, 8)])
def test_group_norms(skip_shape):
    parameters = {"x": IMAGE, "g": GAMMA, "b": BETA}
    how = {"groups": 2, "activation": 1, "constants": ("g", "b")}
    mod = import_onnx(fused("GroupNorm", parameters, **how))
    assert_close(run_fast(mod, IMAGE), [group_norm(IMAGE)])
    skip, bias = f32(*skip_shape), f32(8)
    how["constants"] = ("g", "b", "c")
    parameters |= {"s": skip, "c": bias}
    mod = import_onnx(fused("SkipGroupNorm", parameters, outputs=("y", "sum"), **how))
    total = (
        IMAGE + skip.reshape(1, -1, 1, 8)[:, :1] + bias if skip.ndim == 2 else IMAGE + skip + bias
    )
    assert_close(run_fast(mod, IMAGE, skip), [group_norm(total), total])


def quantized_layers() -> onnx.ModelProto:
    """Two convolutions, a maximum and an average of bytes with channels last.

    Weights are small: on CPUs without VNNI, ONNX Runtime's kernels saturate pairs of large ones.
    """
    constants = {
        "s": np.array(0.05, "float32"),
        "z": np.array(120, "uint8"),
        "sw": np.array(0.001, "float32"),
        "zw": np.array(0, "int8"),
        "w": RNG.integers(-60, 61, (6, 4, 3, 3)).astype("int8"),
        "v": RNG.integers(-60, 61, (5, 6, 1, 1)).astype("int8"),
        "b": RNG.integers(-500, 500, 6).astype("int32"),
    }
    scales = ["s", "z", "sw", "zw", "s", "z"]

    def node(op, x, y, operands, **how):
        return helper.make_node(op, [x, *operands], [y], domain=MS, **how)

    nodes = [
        node("QLinearConv", "x", "p", ["s", "z", "w", *scales[2:], "b"], channels_last=1,
             pads=[1, 1, 1, 1]),
        node("QLinearConv", "p", "q", ["s", "z", "v", *scales[2:]], channels_last=1),
        node("NhwcMaxPool", "q", "r", [], kernel_shape=[2, 2], strides=[2, 2]),
        node("QLinearGlobalAveragePool", "r", "t", ["s", "z", "s", "z"], channels_last=1),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (1, 8, 8, 4))],
        [helper.make_tensor_value_info(name, TensorProto.UINT8, None) for name in ("r", "t")],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def test_integers_of_onnx_runtimes_layout():
    proto = quantized_layers()
    x = RNG.integers(0, 256, (1, 8, 8, 4)).astype("uint8")
    mod = import_onnx(proto)
    operators = [operator(value) for _, value in calls(mod["main"])]
    assert operators.count("permute_dims") == 5  # one in front, one behind each
    ours, theirs = run_fast(mod, x), run_onnx(proto, x)
    for a, b in zip(ours, theirs, strict=True):
        assert np.abs(a.astype(int) - b).max() <= 1


@pytest.mark.parametrize("region", ["", "r"])
@pytest.mark.parametrize("sizes", [False, True])
def test_an_image_is_resized_with_its_channels_last(sizes, region):
    """A region of interest, as jax2onnx writes it, is not read in this mode."""
    x = f32(1, 4, 5, 6)
    given = (
        {"sizes": np.array([1, 8, 10, 6])} if sizes else {"k": np.array([1, 2, 2, 1], "float32")}
    )
    inputs = ["x", region, *([""] * sizes), *given]
    node = helper.make_node("Resize", inputs, ["y"], mode="linear")
    weights = {**given, "r": np.zeros(0, "float32")}
    proto = model([node], {"x": x.shape}, {"y": None}, weights)
    assert_close(run_fast(import_onnx(proto), x), run_onnx(proto, x))
