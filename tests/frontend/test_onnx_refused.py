"""ONNX nodes that are none of their operators: refused, where TVM would crash or raise its own."""

import gc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import relay_int8
from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from tests.onnx_models import model

X = {"x": (1, 4, 6, 6)}
node = helper.make_node


@pytest.mark.parametrize(
    ("operator", "inputs", "opset", "message"),
    [
        ("Concat", ["", "x"], 17, "its input inputs is left out, which has to be there"),
        ("Concat", ["x", ""], 17, "one of its inputs inputs is left out"),
        ("Conv", ["x"], 17, "it has 1 inputs, 2 to 3 are expected"),
        ("Conv", ["x", ""], 17, "its input W is left out"),
        ("Relu", ["x", "x"], 17, "it has 2 inputs, 1 are expected"),
        ("Attention", ["x", "", "x"], 23, "its input K is left out"),
        ("Attention", ["x"] * 9, 23, "it has 9 inputs, 3 to"),
    ],
)
def test_inputs_of_nodes(operator, inputs, opset, message):
    attributes = {"axis": 1} if operator == "Concat" else {}
    proto = model([node(operator, inputs, ["y"], **attributes)], X, {"y": None}, opset=opset)
    with pytest.raises(FrontendError, match=f"{operator}.* of opset {opset}: {message}"):
        import_onnx(proto)


def test_an_attribute_that_has_become_an_input():
    """Tools that raise a file's opset leave it behind; TVM would reduce all axes."""
    mean = node("ReduceMean", ["x"], ["y"], axes=[1])
    assert import_onnx(model([mean], X, {"y": None}, opset=17))
    with pytest.raises(FrontendError, match="its axes is an attribute, an input is expected"):
        import_onnx(model([mean], X, {"y": None}, opset=18))


@pytest.mark.parametrize(
    ("operator", "flag", "opset"),
    [("ReduceMean", "keepdims", 13), ("Mod", "fmod", 13), ("Attention", "is_causal", 23)],
)
def test_flags_are_0_or_1(operator, flag, opset):
    inputs = ["x"] * {"ReduceMean": 1, "Mod": 2, "Attention": 3}[operator]
    proto = model([node(operator, inputs, ["y"], **{flag: 2})], X, {"y": None}, opset=opset)
    with pytest.raises(FrontendError, match=f"its {flag} is 2, 0 or 1 is expected"):
        import_onnx(proto)


@pytest.mark.parametrize("inputs", [["x", "", "high"], ["x", "low", ""], ["x"]])
def test_optional_inputs_may_be_left_out(inputs):
    weights = {"low": np.float32(-1), "high": np.float32(1)}
    proto = model([node("Clip", inputs, ["y"])], X, {"y": None}, weights, opset=17)
    assert import_onnx(proto)


def test_attributes_that_a_composite_operator_does_not_take():
    attention = node("Attention", ["x", "x", "x"], ["y"], softmax_precision=TensorProto.INT8)
    with pytest.raises(FrontendError, match="has attributes that the operator does not take"):
        import_onnx(model([attention], X, {"y": None}, opset=23))


def test_results_of_impossible_shapes():
    pool = node("LpPool", ["x"], ["y"], kernel_shape=[9, 9])
    with pytest.raises(UnsupportedOpError, match=r"its result would be \[1, 4, -2, -2\]"):
        import_onnx(model([pool], X, {"y": None}, opset=17))


def test_types_that_tvm_has_no_code_for(tmp_path):
    proto = model([node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2])], X, {"y": None}, opset=17)
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = TensorProto.BOOL
    onnx.save(proto, tmp_path / "bool.onnx")
    network = relay_int8.load_model(tmp_path / "bool.onnx")
    with pytest.raises(UnsupportedOpError, match=r"TVM cannot compile the network: .*bool"):
        relay_int8.float_network(network)


@pytest.mark.parametrize("location", ["absent.bin", "../../etc/passwd", "/etc/passwd", "n" * 5000])
def test_weights_in_files_that_are_not_beside_the_model(tmp_path, location):
    weights = {"w": np.ones((2, 4, 1, 1), np.float32)}
    proto = model([node("Conv", ["x", "w"], ["y"])], X, {"y": None}, weights, opset=17)
    (tensor,) = proto.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(FrontendError, match="its weights in external files cannot be read"):
        import_onnx(tmp_path / "net.onnx")


@pytest.mark.fast
def test_shapes_that_do_not_fit_are_said_without_the_notation_of_tvm():
    weights = {"w": np.ones((1, 4, 5, 7), np.float32)}
    proto = model([node("Add", ["x", "w"], ["y"], "sum")], X, {"y": None}, weights, opset=17)
    with pytest.raises(UnsupportedOpError, match=r"node sum \(Add\)") as refused:
        import_onnx(proto)
    assert "In add, the first input shape" in str(refused.value)
    assert "ir.Op" not in str(refused.value)
    assert "T.int64" not in str(refused.value)


def test_a_refusal_prints_nothing(capfd):
    """TVM warned of a BlockBuilder with remaining blocks."""
    with pytest.raises(UnsupportedOpError, match="depends on values"):
        import_onnx(model([node("Unique", ["x"], ["y"])], X, {"y": None}))
    gc.collect()
    assert capfd.readouterr().err == ""
