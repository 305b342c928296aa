"""ONNX's DeformConv gives what ONNX Runtime gives; refusals name the node."""

import numpy as np
import onnx
import pytest
from onnx import helper

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from tests.mxnet_models import run_lowered
from tests.onnx_models import assert_close, model, run_onnx

CASES = {
    "plain": {},
    "strided": {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]},
    "grouped": {"group": 2, "offset_group": 3},
}


def deform_conv(
    attributes: dict, masked: bool, biased: bool = True
) -> tuple[onnx.ModelProto, list]:
    """Return a model of one node, and its inputs."""
    rng = np.random.default_rng(len(attributes))
    pads, strides = attributes.get("pads", [0] * 4), attributes.get("strides", [1, 1])
    dilations, parts = attributes.get("dilations", [1, 1]), attributes.get("offset_group", 1)
    x = rng.normal(size=(2, 12, 7, 8)).astype("f4")
    area = [
        (size + pads[i] + pads[i + 2] - dilations[i] * 2 - 1) // strides[i] + 1
        for i, size in enumerate(x.shape[2:])
    ]
    inputs = {"x": x, "offset": rng.normal(0, 2, (2, 18 * parts, *area)).astype("f4")}
    if masked:
        inputs["mask"] = rng.uniform(size=(2, 9 * parts, *area)).astype("f4")
    weights = {"w": rng.normal(size=(4, 12 // attributes.get("group", 1), 3, 3)).astype("f4")}
    if biased:
        weights["b"] = rng.normal(size=4).astype("f4")
    names = ["x", "w", "offset", "b" if biased else "", *(["mask"] if masked else [])]
    node = helper.make_node("DeformConv", names, ["y"], "deform", **attributes)
    shapes = {name: array.shape for name, array in inputs.items()}
    return model([node], shapes, {"y": None}, weights, opset=19), list(inputs.values())


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_equals_onnxruntime(case, masked):
    proto, inputs = deform_conv(CASES[case], masked, biased=case != "grouped")
    assert_close(run_lowered(import_onnx(proto), *inputs), run_onnx(proto, *inputs))


@pytest.mark.fast
def test_offsets_of_another_size():
    proto, _ = deform_conv({}, masked=False)
    del proto.graph.input[1].type.tensor_type.shape.dim[:]
    for size in (2, 18, 4, 6):
        proto.graph.input[1].type.tensor_type.shape.dim.add().dim_value = size
    with pytest.raises(UnsupportedOpError, match=r"deform.*its offset is \[2, 18, 4, 6\], not"):
        import_onnx(proto)
