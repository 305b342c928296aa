"""The same network as ONNX: what imported MXNet networks are compared with."""

from ast import literal_eval

import numpy as np
import onnx
from onnx import helper

from tests.mxnet_models import MxnetModel
from tests.onnx_models import model


def to_onnx(net: MxnetModel, head, shape) -> onnx.ModelProto:
    """Translate node by node; knows what the networks of Gluon's vision zoo have."""
    weights = {name.partition(":")[2]: value for name, value in net.params.items()}
    nodes = []
    for node in net.nodes:
        if node["op"] == "null":
            continue
        inputs = [net.nodes[index]["name"] for index, *_ in node["inputs"]]
        attrs = {key: _value(text) for key, text in node.get("attrs", {}).items()}
        if node["op"] == "clip":
            for bound in ("a_min", "a_max"):
                weights[f"{node['name']}_{bound}"] = np.float32(attrs[bound])
                inputs.append(f"{node['name']}_{bound}")
        if attrs.get("fix_gamma") is True:
            weights[inputs[1]] = np.ones_like(weights[inputs[1]])
        nodes += _nodes(node["op"], node["name"], inputs, attrs)
    result = net.nodes[head[0]]["name"]
    return model(nodes, {"data": shape}, {result: None}, weights)


def _value(text):
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _nodes(op, name, inputs, attrs):
    if op == "FullyConnected":
        flat = helper.make_node("Flatten", inputs[:1], [f"{name}_flat"])
        return [flat, helper.make_node("Gemm", [f"{name}_flat", *inputs[1:]], [name], transB=1)]
    kind, options = _translated(op, attrs)
    return [helper.make_node(kind, inputs, [name], **options)]


def _translated(op, attrs):
    window = {
        "strides": attrs.get("stride", (1, 1)),
        "pads": attrs.get("pad", (0, 0)) * 2,
        "kernel_shape": attrs.get("kernel"),
    }
    if op == "Convolution":
        return "Conv", {**window, "group": attrs.get("num_group", 1)}
    if op == "Pooling" and attrs.get("global_pool"):
        return {"avg": "GlobalAveragePool", "max": "GlobalMaxPool"}[attrs["pool_type"]], {}
    if op == "Pooling":
        window["ceil_mode"] = int(attrs.get("pooling_convention") == "full")
        average = attrs["pool_type"] == "avg"
        return (
            ("AveragePool", {**window, "count_include_pad": 1}) if average else ("MaxPool", window)
        )
    if op == "BatchNorm":
        return "BatchNormalization", {"epsilon": attrs.get("eps", 1e-3)}
    if op == "Concat":
        return "Concat", {"axis": attrs["dim"]}
    plain = {"Activation": "Relu", "clip": "Clip", "elemwise_add": "Add", "Dropout": "Identity"}
    return plain.get(op, op), {}
