"""Write composite ONNX operators as the operators that the standard defines them by.

TVM's importer lacks them, or takes them for operators of other standards that share their name.
"""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TypeProto, helper, inliner, numpy_helper, shape_inference

from relay_int8.errors import FrontendError

EXPANDED = {"Attention", "RotaryEmbedding", "Swish"}
DOMAIN = "relay_int8.expanded"
STANDARD = ("", "ai.onnx")
SHAPE_ELEMENTS = 1024  # elements of a constant that can say a shape; larger ones are weights


def expand_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` with composite operators expanded; the model itself if it has none.

    Raises
    ------
    FrontendError
        If ONNX has no definition for an operator as it stands in the model.
    """
    if not any(_is_composite(node) for node in model.graph.node):
        return model
    outline, weights = _outline(model)
    types = _types(outline)
    opset = next(entry.version for entry in model.opset_import if entry.domain in STANDARD)
    for index, node in enumerate(outline.graph.node):
        if _is_composite(node):
            function = _definition(node, types, opset)
            function.domain, function.name = DOMAIN, f"{node.op_type}_{index}"
            outline.functions.append(function)
            node.domain, node.op_type = DOMAIN, function.name
    outline.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    expanded = inliner.inline_local_functions(outline)
    inputs = [value for value in expanded.graph.input if value.name not in weights]
    del expanded.graph.input[:], expanded.graph.value_info[:]
    expanded.graph.input.extend(inputs)
    expanded.graph.initializer.extend(weights.values())
    return expanded


def _is_composite(node: onnx.NodeProto) -> bool:
    return node.domain in STANDARD and node.op_type in EXPANDED


def _outline(model: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, onnx.TensorProto]]:
    """Return a model with its weights as inputs, and the weights: a model has 2 GB at most."""
    outline = onnx.ModelProto(ir_version=model.ir_version, functions=model.functions)
    outline.opset_import.extend(model.opset_import)
    outline.metadata_props.extend(model.metadata_props)
    body: onnx.GraphProto = outline.graph
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
    return outline, weights


def _types(model: onnx.ModelProto) -> dict[str, TypeProto]:
    """Return the type of every tensor, as far as ONNX infers it."""
    try:
        graph = shape_inference.infer_shapes(model, data_prop=True).graph
    except (RuntimeError, ValueError, shape_inference.InferenceError) as err:
        raise FrontendError(
            f"ONNX cannot infer the shapes of the model: {str(err).strip().splitlines()[0]}"
        ) from err
    types = {value.name: value.type for value in (*graph.value_info, *graph.input, *graph.output)}
    for tensor in graph.initializer:
        types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    return types


def _definition(
    node: onnx.NodeProto, types: dict[str, TypeProto], opset: int
) -> onnx.FunctionProto:
    """Return what the standard defines a node as."""
    title = f"node {node.name or node.output[0]} ({node.op_type})"
    unknown = [name for name in node.input if name and name not in types]
    if unknown:
        raise FrontendError(
            f"{title}: the type of {', '.join(unknown)} is not known; export the model again with "
            "fixed shapes, or with opset 22 or older"
        )
    given = [types.get(name, TypeProto()).SerializeToString() for name in node.input]
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, "")
        text = (
            schema.get_context_dependent_function(node.SerializeToString(), given)
            if schema.has_context_dependent_function
            else schema.function_body.SerializeToString()
        )
    except (RuntimeError, ValueError, onnx.defs.SchemaError) as err:
        raise FrontendError(f"{title} has no definition in opset {opset}: {err}") from err
    function = onnx.FunctionProto.FromString(text)
    _count_infinities(function)
    return function


def _count_infinities(function: onnx.FunctionProto) -> None:
    """Ask which rows of a mask are infinite without the largest element of a row.

    Before:  hidden = Equal(ReduceMax(mask, axes), -inf)
    After:   hidden = Equal(ReduceMin(Cast(Less(mask, lowest float32)), axes), 1)

    TVM's largest element of a row of -inf is the lowest float32, which is a mask of its own.
    """
    maxima = {node.output[0]: node for node in function.node if node.op_type == "ReduceMax"}
    readers = [node for node in function.node if set(node.input) & set(maxima)]
    if not readers or any(node.op_type != "Equal" for node in readers):
        return
    nodes: list[onnx.NodeProto] = []
    for node in function.node:
        if node.op_type == "ReduceMax":
            name, mask = node.output[0], node.input[0]
            lowest = np.array(np.finfo(np.float32).min, np.float32)
            nodes += [
                _constant(f"{name}Lowest", lowest),
                _constant(f"{name}One", np.array(1, np.float32)),
                helper.make_node("Cast", [mask], [f"{name}Mask"], to=onnx.TensorProto.FLOAT),
                helper.make_node("Less", [f"{name}Mask", f"{name}Lowest"], [f"{name}Hidden"]),
                helper.make_node(
                    "Cast", [f"{name}Hidden"], [f"{name}Count"], to=onnx.TensorProto.FLOAT
                ),
            ]
            node.op_type, node.input[0] = "ReduceMin", f"{name}Count"
        elif node in readers:
            name = next(each for each in node.input if each in maxima)
            del node.input[:]
            node.input.extend([name, f"{name}One"])
        nodes.append(node)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del function.node[:]
    function.node.extend(kept)


def _constant(name: str, array: np.ndarray) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))
