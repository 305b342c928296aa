"""Write composite ONNX operators as the operators that the standard defines them by.

TVM's importer lacks them, or takes them for operators of other standards that share their name.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import onnx
from onnx import TypeProto, helper, inliner, numpy_helper, shape_inference

from relay_int8.errors import FrontendError
from relay_int8.frontend.onnx.node_form import misfit
from relay_int8.frontend.onnx.rewrites.outline import fill, outline

EXPANDED = {"Attention", "RotaryEmbedding", "Swish"}
DOMAIN = "relay_int8.expanded"
STANDARD = ("", "ai.onnx")


def expand_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` with composite operators expanded; the model itself if it has none.

    Raises
    ------
    FrontendError
        If ONNX has no definition for an operator as it stands in the model.
    """
    if not any(_is_composite(node) for node in model.graph.node):
        return model
    outlined, weights = outline(model)
    types = _types(outlined)
    constants = {tensor.name for tensor in outlined.graph.initializer}
    opset = next(entry.version for entry in model.opset_import if entry.domain in STANDARD)
    for index, node in enumerate(outlined.graph.node):
        if _is_composite(node):
            function = _definition(node, types, constants, opset)
            function.domain, function.name = DOMAIN, f"{node.op_type}_{index}"
            outlined.functions.append(function)
            node.domain, node.op_type = DOMAIN, function.name
    outlined.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return fill(_inlined(outlined), weights)


def _inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model with its functions written out; ONNX does not look at nodes before."""
    try:
        return inliner.inline_local_functions(model)
    except (RuntimeError, ValueError) as err:
        raise FrontendError(
            f"ONNX cannot write out what the standard defines {', '.join(sorted(EXPANDED))} as: "
            f"{str(err).strip().splitlines()[0]}; such a node has attributes that the operator "
            "does not take: mend its export"
        ) from err


def _is_composite(node: onnx.NodeProto) -> bool:
    return node.domain in STANDARD and node.op_type in EXPANDED


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
    node: onnx.NodeProto, types: dict[str, TypeProto], constants: Collection[str], opset: int
) -> onnx.FunctionProto:
    """Return what the standard defines a node as."""
    title = f"node {node.name or node.output[0]} ({node.op_type})"
    if (fault := misfit(node, opset)) is not None:
        raise FrontendError(f"{title} of opset {opset}: {fault}; export the model again")
    unknown = [name for name in node.input if name and name not in types]
    if unknown:
        raise FrontendError(
            f"{title}: the type of {', '.join(unknown)} is not known; export the model again with "
            "fixed shapes, or with opset 22 or older"
        )
    given = [types.get(name, TypeProto()).SerializeToString() for name in node.input]
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, "")
        _write_defaults(node, schema)
        text = (
            schema.get_context_dependent_function(node.SerializeToString(), given)
            if schema.has_context_dependent_function
            else schema.function_body.SerializeToString()
        )
    except (RuntimeError, ValueError, onnx.defs.SchemaError) as err:
        raise FrontendError(f"{title} has no definition in opset {opset}: {err}") from err
    function = onnx.FunctionProto.FromString(text)
    is_computed = any(
        name and name not in constants for name in (*node.input[3:4], *node.input[6:7])
    )
    if is_computed:
        _test_shares(function)
    return function


def _write_defaults(node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> None:
    """Give a node the attributes that it leaves to their defaults; ONNX's inliner does not."""
    given = {attribute.name for attribute in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
            node.attribute.append(attribute.default_value)


def _test_shares(function: onnx.FunctionProto) -> None:
    """Ask a softmax itself, not its mask, in which rows every key is hidden.

    Before:  shares = Where(Equal(ReduceMax(mask, axes), -inf), 0, softmax)
    After:   shares = Where(IsNaN(softmax), 0, softmax)

    This is how PyTorch writes attention in other operators, and what is recognized as attention.
    """
    maxima = {node.output[0] for node in function.node if node.op_type == "ReduceMax"}
    equals = [node for node in function.node if node.op_type == "Equal"]
    tests = {node.output[0] for node in equals if maxima.intersection(node.input)}
    nodes: list[onnx.NodeProto] = []
    for node in function.node:
        if node.op_type == "Where" and node.input[0] in tests:
            softmax, node.input[0] = node.input[2], f"{node.output[0]}Hidden"
            nodes.append(helper.make_node("IsNaN", [softmax], [node.input[0]]))
        nodes.append(node)
    read, kept = set(function.output), []
    for node in reversed(nodes):
        if read.intersection(node.output):
            kept.append(node)
            read.update(node.input)
    _replace_nodes(function, kept[::-1])


def _replace_nodes(function: onnx.FunctionProto, nodes: Sequence[onnx.NodeProto]) -> None:
    """Write a function's nodes anew; some of them may be its own."""
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del function.node[:]
    function.node.extend(kept)


def _constant(name: str, array: np.ndarray) -> onnx.NodeProto:
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array))
