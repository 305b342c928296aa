"""Whether a node has the inputs that the standard demands of its operator."""

from __future__ import annotations

import onnx

_Option = onnx.defs.OpSchema.FormalParameterOption


def misfit(node: onnx.NodeProto, opset: int) -> str | None:
    """Say in what the inputs of a node are not those of its operator, or None.

    Operators that the standard lacks in this opset are not judged. TVM's converters end the process
    at some operands that are left out.
    """
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
    except onnx.defs.SchemaError:
        return None
    count = len(node.input)
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
