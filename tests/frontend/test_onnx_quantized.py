"""Operators on integers of ONNX Runtime's own domain, against ONNX Runtime."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from relay_int8.frontend.onnx import import_onnx
from tests.onnx_models import run_onnx, run_relax

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
