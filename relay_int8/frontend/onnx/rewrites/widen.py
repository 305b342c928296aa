"""Read a model of float16, bfloat16 or float64 as one of float32: what is quantized is float32.

Weights, constants, casts, inputs and outputs become float32. The 16 bits are a float32 exactly; a
float64 is rounded, to infinity where it is too large.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

OTHER_FLOATS = {TensorProto.BFLOAT16, TensorProto.FLOAT16, TensorProto.DOUBLE}
TYPE_ATTRIBUTES = ("to", "dtype")
"""Integer attributes that name the type of a result."""


def widen(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` in float32; the model itself where no input or weight is another float.

    Scalars alone do not count: arithmetic of shapes may be in float64.
    """
    graph = model.graph
    tensors = [*graph.initializer, *(a.t for node in graph.node for a in node.attribute)]
    inputs = {value.type.tensor_type.elem_type for value in graph.input}
    weights = {tensor.data_type for tensor in tensors if tensor.dims}
    if not (inputs | weights) & OTHER_FLOATS:
        return model
    widened = onnx.ModelProto()
    widened.CopyFrom(model)
    _widen_graph(widened.graph)
    return widened


def _widen_graph(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type in OTHER_FLOATS:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        if attribute.type == onnx.AttributeProto.TENSOR:
            _widen_tensor(attribute.t)
        elif attribute.type == onnx.AttributeProto.GRAPH:
            _widen_graph(attribute.g)
        elif attribute.name in TYPE_ATTRIBUTES and attribute.i in OTHER_FLOATS:
            attribute.i = TensorProto.FLOAT


def _widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in OTHER_FLOATS:
        with np.errstate(over="ignore"):
            array = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
