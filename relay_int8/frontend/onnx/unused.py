"""Leave out nodes and constants that no output is computed from.

Who cuts a network by naming other outputs leaves what stood behind them in the file: operators that
cannot be imported, and weights of theirs.
"""

from __future__ import annotations

import onnx

from relay_int8.frontend.onnx.node_order import names_read


def drop_unused(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` without them; the model itself if every node and constant is read.

    Inputs stay, read or not; a weight that older files list among them goes from there too.
    """
    graph = model.graph
    read = {value.name for value in graph.output}
    nodes = []
    for node in reversed(graph.node):
        if not read.isdisjoint(node.output) or not any(node.output):
            nodes.append(node)
            read.update(names_read(node))
    constants = [tensor for tensor in graph.initializer if tensor.name in read]
    if len(nodes) == len(graph.node) and len(constants) == len(graph.initializer):
        return model
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [v for v in graph.input if v.name in read or v.name not in weights]
    kept = onnx.ModelProto()
    kept.CopyFrom(model)
    for field, values in (
        (kept.graph.node, list(reversed(nodes))),
        (kept.graph.initializer, constants),
        (kept.graph.input, inputs),
    ):
        del field[:]
        field.extend(values)
    return kept
