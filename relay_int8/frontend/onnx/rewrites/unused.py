"""Leave out nodes and constants that no output is computed from.

Who cuts a network by naming other outputs, here or in the file, leaves what stands behind them:
operators that cannot be imported, and weights of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import onnx
from onnx import helper

from relay_int8.frontend.onnx.rewrites.node_order import names_read
from relay_int8.frontend.options import require_tensors


def cut_at(model: onnx.ModelProto, outputs: Sequence[str]) -> onnx.ModelProto:
    """Return ``model`` with these tensors as its outputs; itself where none is named.

    Raises
    ------
    ConfigError
        No node gives a tensor of such a name.
    """
    if not outputs:
        return model
    require_tensors(outputs, {name for node in model.graph.node for name in node.output if name})
    known = {value.name: value for value in (*model.graph.value_info, *model.graph.output)}
    cut = onnx.ModelProto()
    cut.CopyFrom(model)
    replace_items(
        cut.graph.output,
        (known.get(name) or helper.make_empty_tensor_value_info(name) for name in outputs),
    )
    return cut


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
        replace_items(field, values)
    return kept


def replace_items(field: Any, values: Iterable[Any]) -> None:
    """Put ``values`` in the place of all that a repeated field of a message holds."""
    kept = list(values)  # they may be some of it
    del field[:]
    field.extend(kept)
