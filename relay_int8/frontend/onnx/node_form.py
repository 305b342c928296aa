"""Names of nodes, and whether a node has the form that the standard demands: inputs, flags."""

from __future__ import annotations

import onnx

FLAGS = frozenset(
    {
        "align_corners",
        "allowzero",
        "ceil_mode",
        "count_include_pad",
        "exclude_outside",
        "exclusive",
        "fmod",
        "is_causal",
        "keepdims",
        "largest",
        "layout",
        "linear_before_reset",
        "noop_with_empty_axes",
        "reverse",
        "select_last_index",
        "transA",
        "transB",
    }
)
"""Attributes that are 0 or 1; runtimes take others for either."""
_Option = onnx.defs.OpSchema.FormalParameterOption


def misfit(node: onnx.NodeProto, opset: int) -> str | None:
    """Say in what a node is none of its operator, or None.

    Operators that the standard lacks in this opset are not judged. TVM's converters end the process
    at some operands that are left out.
    """
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    for attribute in node.attribute:
        if attribute.name in FLAGS and attribute.i not in (0, 1):
            return f"its {attribute.name} is {attribute.i}, 0 or 1 is expected"
    count = len(node.input)
    operands = {formal.name for formal in schema.inputs} - schema.attributes.keys()
    for attribute in node.attribute:
        if attribute.name in operands:
            return (
                f"its {attribute.name} is an attribute, an input is expected (a tool may have "
                "raised the opset that the file says, and no more: convert it first)"
            )
    if not schema.min_input <= count <= schema.max_input:
        most = f" to {schema.max_input}" if schema.max_input != schema.min_input else ""
        return f"it has {count} inputs, {schema.min_input}{most} are expected"
    for formal, name in zip(schema.inputs, node.input, strict=False):
        if not name and formal.option != _Option.Optional:
            return f"its input {formal.name} is left out, which has to be there"
    is_variadic = bool(schema.inputs) and schema.inputs[-1].option == _Option.Variadic
    if is_variadic and "" in node.input[len(schema.inputs) - 1 :]:
        return f"one of its inputs {schema.inputs[-1].name} is left out; all have to be there"
    return None


def title_of(node: onnx.NodeProto) -> str:
    """Return a node's name, its first output's where it has none, or its operator's."""
    return str(node.name or next(filter(None, node.output), node.op_type))
