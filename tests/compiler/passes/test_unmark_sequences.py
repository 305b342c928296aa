"""UnmarkSequences: TVM's scatters are compiled without a word on standard error."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from relay_int8.frontend.onnx import import_onnx
from tests.mxnet_models import run_lowered
from tests.onnx_models import model

X = np.zeros((6, 4), "float32")
UPDATES = np.arange(8, dtype="float32").reshape(2, 4)


@pytest.mark.parametrize(
    ("operator", "indices"),
    [("ScatterElements", np.array([[1] * 4, [5] * 4])), ("ScatterND", np.array([[1], [5]]))],
)
def test_scatters_print_nothing(capfd, operator, indices):
    nodes = [helper.make_node(operator, ["x", "indices", "updates"], ["y"])]
    proto = model(nodes, {"x": X.shape, "updates": UPDATES.shape}, {"y": None})
    proto.graph.input.append(
        helper.make_tensor_value_info("indices", TensorProto.INT64, indices.shape)
    )
    (y,) = run_lowered(import_onnx(proto), X, UPDATES, indices)
    np.testing.assert_array_equal(y[[1, 5]], UPDATES)
    assert not y[[0, 2, 3, 4]].any()
    assert capfd.readouterr().err == ""
