"""Operators on integers of ONNX Runtime's own domain, against ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, operator
from tests.frontend.test_onnx_fused import f32, fused
from tests.onnx_models import assert_close, model, run_onnx, run_relax

SHAPE = (2, 3, 4, 5)


def softmax_model(**attributes) -> onnx.ModelProto:
    node = helper.make_node(
        "QLinearSoftmax", ["x", "sx", "z", "sy", "z"], ["y"], domain="com.microsoft", **attributes
    )
    constants = [
        helper.make_tensor("sx", TensorProto.FLOAT, (), [0.05]),
        helper.make_tensor("sy", TensorProto.FLOAT, (), [1 / 256]),
        helper.make_tensor("z", TensorProto.UINT8, (), [0]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.UINT8, SHAPE) for name in "xy")
    return helper.make_model(
        helper.make_graph([node], "g", [x], [y], constants),
        opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)],
        ir_version=9,
    )


@pytest.mark.fast
@pytest.mark.parametrize(
    "attributes", [{"opset": 13}, {"opset": 13, "axis": 1}, {"opset": 12}, {"opset": 12, "axis": 2}]
)
def test_softmax_is_along_what_its_opset_says(attributes):
    found = softmax_model(**attributes)
    x = np.random.default_rng(5).integers(0, 256, SHAPE, np.uint8)
    (ours,) = run_relax(import_onnx(found), x)
    (theirs,) = run_onnx(found, x)
    assert np.abs(ours.astype(int) - theirs).max() <= 1
    assert theirs.max() > 8  # along another axis values differ by more than a step


RNG = np.random.default_rng(7)
IDS = np.array([[3, 1, 8], [0, 8, 2]], "int32")
KEPT = np.array([[1, 1, 0], [1, 1, 1]], "int32")


def u8(*shape):
    return RNG.integers(0, 256, shape).astype("uint8")


def scales(*shape):
    return RNG.uniform(0.005, 0.01, shape).astype("float32")


@pytest.mark.parametrize("columns", [(), (24,)])
def test_attention_with_integer_operands(columns):
    """Its result is float; weights may have a scale and zero point for each column."""
    x = u8(2, 3, 8)
    arrays = {"x": x, "w": u8(8, 24), "b": f32(24), "sx": scales(), "sw": scales(*columns)}
    arrays |= {"m": KEPT, "zx": np.uint8(120), "zw": np.full(columns, 125, "uint8")}
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    kept = tuple(name for name in arrays if name != "x")
    proto = fused("QAttention", arrays, constants=kept, num_heads=2, unidirectional=1)
    mod = import_onnx(proto)
    assert [operator(value) for _, value in calls(mod["main"])].count("dequantize") == 2
    assert_close(run_relax(mod, x), run_onnx(proto, x))


def test_attention_whose_range_is_found_in_every_run_is_that_of_a_float_network():
    x, w, scale = f32(2, 3, 8), u8(8, 24), np.array(0.01, "float32")
    constants = {"w": w, "b": f32(24), "sw": scale, "zw": np.array(128, "uint8")}
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["xq", "sx", "zx"]),
        helper.make_node(
            "QAttention", ["xq", "w", "b", "sx", "sw", "", "zx", "zw"], ["y"], num_heads=2,
            domain="com.microsoft",
        ),
    ]  # fmt: skip
    proto = model(nodes, {"x": x.shape}, {"y": None}, constants)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    real = (w.astype("float32") - 128) * scale
    plain = fused("Attention", {"x": x, "w": real, "b": constants["b"]}, num_heads=2)
    assert_close(run_relax(import_onnx(proto), x), run_onnx(plain, x, real, constants["b"]))


def test_embeddings_of_integers():
    tables = {"words": u8(9, 8), "places": u8(6, 8), "kinds": u8(2, 8), "g": u8(8), "b": u8(8)}
    parameters = {f"s{name}": np.asarray(scales()) for name in tables}
    parameters |= {f"z{name}": np.array(120, "uint8") for name in tables}
    constants = tables | {"mask": KEPT} | parameters
    proto = fused(
        "QEmbedLayerNormalization",
        {"ids": IDS, "segments": IDS % 2, **constants},
        constants=tuple(constants),
        outputs=("y", "count"),
    )
    proto.graph.output[1].type.tensor_type.elem_type = TensorProto.INT32
    ours, theirs = run_relax(import_onnx(proto), IDS, IDS % 2), run_onnx(proto, IDS, IDS % 2)
    assert_close(ours, theirs)


def test_means_of_integers():
    arrays = {"x": u8(1, 3, 4, 5), "s": scales(), "z": np.uint8(9), "t": scales(), "o": np.uint8(3)}
    arrays = {name: np.asarray(array) for name, array in arrays.items()}
    proto = fused("QLinearReduceMean", arrays, constants=tuple("szto"), axes=[2, 3], keepdims=0)
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.UINT8
    x, s, t = arrays["x"].astype("float32"), arrays["s"], arrays["t"]
    wanted = np.clip(np.rint((x.mean((2, 3)) - 9) * s / t) + 3, 0, 255)
    (ours,) = run_relax(import_onnx(proto), arrays["x"])
    assert np.abs(ours - wanted).max() <= 1


def test_pairs_of_com_microsoft_in_an_old_opset():
    """Of 16 bits, which standard pairs have from opset 21 on; they are computed in floats."""
    x = f32(1, 3, 4, 4)
    constants = {"s": np.array(0.001, "float32"), "z": np.array(30000, "uint16")}
    names = ["s", "z"]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", *names], ["q"], domain="com.microsoft"),
        helper.make_node("DequantizeLinear", ["q", *names], ["y"], domain="com.microsoft"),
    ]
    proto = model(nodes, {"x": x.shape}, {"y": None}, constants, 12)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert_close(run_relax(import_onnx(proto), x), run_onnx(proto, x))
