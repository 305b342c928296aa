"""What is compared of detectors: in front of a suppression its scores and boxes."""

import numpy as np
import onnx
import pytest
from onnx import helper

from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.mxnet import import_mxnet
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.compared import chosen_tensors, compared_tensors, returning
from relay_int8.graph.dataflow import results, shape
from relay_int8.notices import Notice
from tests.detection_networks import SIZE, mxnet_ssd, tflite_ssd
from tests.mxnet_models import MxnetModel
from tests.onnx_models import model

pytestmark = pytest.mark.fast


def mxnet_module(tmp_path, *, gluon: bool):
    net = MxnetModel()
    path = net.save(tmp_path, mxnet_ssd(net, gluon=gluon))
    return normalize()(import_mxnet(path, inputs={"data": (1, 3, SIZE, SIZE)}))


def test_scores_and_boxes_in_front_of_a_suppression(tmp_path):
    mod = normalize()(tflite_ssd().imported(tmp_path))
    found = compared_tensors(mod["main"])
    assert list(found) == ["y40/of_best", "y40/boxes"]
    assert set(found.values()) == {"y40/kept"}
    assert list(compared_tensors(mxnet_module(tmp_path, gluon=True)["main"])) == [
        "kept/scores", "kept/boxes",
    ]  # fmt: skip


def test_results_that_nothing_suppresses_stay(tmp_path):
    net = tflite_ssd()
    predictions = net.graph.operators[-1].inputs[1]
    net.graph.outputs = [predictions, net.graph.outputs[3]]
    found = compared_tensors(normalize()(net.imported(tmp_path))["main"])
    assert found == {"predictions": "", "y40/of_best": "y40/kept", "y40/boxes": "y40/kept"}


def test_networks_without_suppression_are_compared_by_their_results(tmp_path):
    net = tflite_ssd()
    net.graph.outputs = net.graph.operators[-1].inputs[1:2]
    net.graph.operators.pop()
    mod = normalize()(net.imported(tmp_path))
    assert compared_tensors(mod["main"]) == {"predictions": ""}


def test_of_two_suppressions_the_first_one_counts(tmp_path):
    net = MxnetModel()
    first = mxnet_ssd(net, gluon=True)
    second = net.op("_contrib_box_nms", "again", first, id_index=0)
    path = net.save(tmp_path, second)
    mod = normalize()(import_mxnet(path, inputs={"data": (1, 3, SIZE, SIZE)}))
    found = compared_tensors(mod["main"])
    assert list(found) == ["kept/scores", "kept/boxes"]


def test_inputs_of_a_network_are_not_compared(tmp_path):
    net = MxnetModel()
    rows = net.variable("data")
    path = net.save(tmp_path, net.op("_contrib_box_nms", "kept", rows))
    mod = normalize()(import_mxnet(path, inputs={"data": (1, 9, 6)}))
    assert list(compared_tensors(mod["main"])) == ["kept/scores", "kept/boxes"]


def test_a_module_returns_what_is_compared(tmp_path):
    mod = mxnet_module(tmp_path, gluon=True)
    names = list(compared_tensors(mod["main"]))
    found = returning(mod, names)
    assert [shape(var) for var in results(found["main"])] == [(1, 1, 144), (1, 144, 4)]
    assert [str(var.name) for var in results(mod["main"])] == ["detections"]


def test_of_a_choice_by_scores_these_and_what_is_chosen_from():
    """As YOLO's exporter chooses: scores above a threshold, then boxes; classes are left out."""
    nodes = [
        helper.make_node("ReduceMax", ["scores"], ["best"], axes=[1], keepdims=0),
        helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0),
        helper.make_node("Greater", ["best", "half"], ["is_high"]),
        helper.make_node("NonZero", ["is_high"], ["axes_first"]),
        helper.make_node("Transpose", ["axes_first"], ["places"]),
        helper.make_node("Sigmoid", ["x"], ["boxes"]),
        helper.make_node("GatherND", ["boxes", "places"], ["rows"]),
        helper.make_node("GatherND", ["label", "places"], ["labels"]),
    ]
    nodes.insert(0, helper.make_node("Tanh", ["x"], ["scores"]))
    proto = model(nodes, {"x": (9, 4)}, {"rows": None}, {"half": np.float32([0.5])})
    proto.graph.output.append(onnx.ValueInfoProto(name="labels"))
    with pytest.warns(Notice, match="outputs rows, labels have"):
        mod = normalize()(import_onnx(proto))
    found = compared_tensors(mod["main"])
    assert list(found) == ["best", "boxes"]
    assert {str(var.name) for var in chosen_tensors(mod["main"])} >= {"rows", "labels", "rows.rows"}


def test_of_parts_of_one_tensor_this_is_compared():
    """As SSD chooses among the boxes of each class by its scores."""
    nodes = [helper.make_node("Tanh", ["x"], ["scores"])]
    for i in ("0", "1"):
        nodes += [
            helper.make_node("Gather", ["scores", i], [f"score{i}"], axis=1),
            helper.make_node("Greater", [f"score{i}", "half"], [f"is_high{i}"]),
            helper.make_node("NonZero", [f"is_high{i}"], [f"axes_first{i}"]),
            helper.make_node("Transpose", [f"axes_first{i}"], [f"places{i}"]),
            helper.make_node("GatherND", [f"score{i}", f"places{i}"], [f"rows{i}"]),
        ]
    nodes.append(helper.make_node("Concat", ["rows0", "rows1"], ["rows"], axis=0))
    constants = {"half": np.float32([0.5]), "0": np.array(0), "1": np.array(1)}
    with pytest.warns(Notice, match="output rows has"):
        mod = normalize()(import_onnx(model(nodes, {"x": (9, 4)}, {"rows": None}, constants)))
    assert list(compared_tensors(mod["main"])) == ["scores"]
