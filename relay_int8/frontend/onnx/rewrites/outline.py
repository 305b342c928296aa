"""A model without its large weights, for ONNX's inliner, which takes 2 GB at most."""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx
from onnx import helper

SHAPE_ELEMENTS = 1024  # elements of a constant that can say a shape; larger ones are weights


def outline(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, onnx.TensorProto]]:
    """Return a model with its weights as inputs, and the weights."""
    outlined = onnx.ModelProto(ir_version=model.ir_version, functions=model.functions)
    outlined.opset_import.extend(model.opset_import)
    outlined.metadata_props.extend(model.metadata_props)
    body: onnx.GraphProto = outlined.graph
    weights: dict[str, onnx.TensorProto] = {}
    body.name = model.graph.name
    body.node.extend(model.graph.node)
    body.input.extend(model.graph.input)
    body.output.extend(model.graph.output)
    given = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if math.prod(tensor.dims) <= SHAPE_ELEMENTS:
            body.initializer.add().CopyFrom(tensor)
            continue
        weights[tensor.name] = tensor
        if tensor.name not in given:
            info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            body.input.append(info)
    return outlined, weights


def fill(outlined: onnx.ModelProto, weights: Mapping[str, onnx.TensorProto]) -> onnx.ModelProto:
    """Put the weights into an outline again; the outline itself is returned."""
    inputs = [value for value in outlined.graph.input if value.name not in weights]
    del outlined.graph.input[:], outlined.graph.value_info[:]
    outlined.graph.input.extend(inputs)
    outlined.graph.initializer.extend(weights.values())
    return outlined
