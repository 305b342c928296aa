"""Operators of ONNX's first versions, which ONNX Runtime still runs."""

import numpy as np
import pytest
from onnx import helper

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from tests.onnx_models import assert_close, model, run_onnx, run_relax

pytestmark = pytest.mark.fast
X = np.random.default_rng(0).normal(size=(1, 3, 6, 7)).astype("float32")
CASES = [
    helper.make_node("Affine", ["x"], ["y"], alpha=150.0, beta=-2.0),
    helper.make_node("Crop", ["x"], ["y"], border=[1, 2, 3, 0]),
    helper.make_node("Crop", ["x"], ["y"], border=[1, 2, 0, 0], scale=[3, 4]),
    helper.make_node("ImageScaler", ["x"], ["y"], bias=[-1.0, 0.5, 2.0], scale=0.5),
    helper.make_node("ParametricSoftplus", ["x"], ["y"], alpha=0.5, beta=2.0),
    helper.make_node("ScaledTanh", ["x"], ["y"], alpha=1.5, beta=0.5),
]


@pytest.mark.parametrize("node", CASES, ids=lambda node: node.op_type)
def test_equals_onnxruntime(node):
    proto = model([node], {"x": X.shape}, {"y": None}, opset=7)
    assert_close(run_relax(import_onnx(proto), X), run_onnx(proto, X))


def test_a_factor_of_all_elements():
    """ONNX Runtime has no kernel of it in every build."""
    proto = model([helper.make_node("Scale", ["x"], ["y"], scale=3.0)], {"x": X.shape}, {"y": None})
    assert_close(run_relax(import_onnx(proto), X), [3 * X])


def test_borders_that_leave_nothing_are_refused():
    node = helper.make_node("Crop", ["x"], ["y"], border=[4, 0, 4, 0])
    proto = model([node], {"x": X.shape}, {"y": None}, opset=7)
    with pytest.raises(UnsupportedOpError, match="it crops 6 x 7 pixels to 0:6, 4:3"):
        import_onnx(proto)
