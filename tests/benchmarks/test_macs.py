import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from benchmarks import zoo
from benchmarks.macs import in_bounds_macs

pytestmark = pytest.mark.fast


def conv(x, w, **attributes):
    node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "conv",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.ones(w, "float32"), "w")],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=zoo.graph_writer.IR_VERSION
    )


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((1, 3, 4, 4), (5, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((1, 3, 4, 4), (5, 3, 3, 3), {}),
        ((1, 4, 9, 7), (6, 2, 3, 3), {"pads": [1, 0, 2, 1], "strides": [2, 3], "group": 2}),
        ((1, 4, 9, 7), (4, 1, 3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2], "group": 4}),
        ((1, 2, 5, 6), (3, 2, 1, 7), {"pads": [0, 3, 0, 3]}),
    ],
)
def test_ones_convolved_with_ones_count_the_taps_inside(x, w, attributes):
    model = conv(x, w, **attributes)
    (counts,) = ReferenceEvaluator(model).run(None, {"x": np.ones(x, "float32")})
    assert in_bounds_macs(model) == counts.sum()


def test_worked_example():
    # A 3x3 window on 4 pixels with padding 1 misses the image once at either end: 10 of 12 taps.
    assert in_bounds_macs(conv((1, 3, 4, 4), (5, 3, 3, 3), pads=[1, 1, 1, 1])) == 10 * 10 * 3 * 5


def test_whole_network_loses_a_few_percent_to_padding():
    inside = in_bounds_macs(zoo.build("resnet18"))
    every = zoo.cost("resnet18").macs
    assert 0.9 * every < inside < every


def test_dense():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> '
        "g (float[2, 3] x, float[3, 5] w) => (float[2, 5] y) { y = MatMul(x, w) }"
    )
    assert in_bounds_macs(model) == 2 * 3 * 5


def test_unknown_where_a_shape_is():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17, "com.example": 1]> '
        "g (float[2, 3] x, float[3, 5] w) => (float[2, 5] y) "
        "{ u = com.example.Unknown(x) y = MatMul(u, w) }"
    )
    assert in_bounds_macs(model) is None
