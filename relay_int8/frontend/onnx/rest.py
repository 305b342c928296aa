"""What lies behind the tensors at which a model is cut, as a model of its own.

A detector that is cut in front of its suppression of boxes leaves the rest of its file to another
runtime. The rest reads what the front gives, and inputs of the model whose shapes it asks for.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from relay_int8.errors import ConfigError, FrontendError
from relay_int8.frontend.onnx.cut_points import OF_SHAPES, PRODUCTS
from relay_int8.frontend.onnx.rewrites.node_order import in_order, names_read
from relay_int8.frontend.onnx.rewrites.typed import typed
from relay_int8.frontend.onnx.rewrites.unused import drop_unused, replace_items
from relay_int8.frontend.options import output_option, require_tensors
from relay_int8.notices import notice


def rest_of(model: onnx.ModelProto, cut: Sequence[str]) -> onnx.ModelProto:
    """Return the model that gives the outputs of ``model`` from the tensors named in ``cut``.

    Outputs that are among these are left out, and inputs that nothing reads. Tensors have the types
    of the file: the network in front gives float32 where these are float16. A notice says that
    products of the network stay in the rest, and from which tensors on.

    Raises
    ------
    ConfigError
        No node gives such a tensor, or no output lies behind them.
    FrontendError
        The type of such a tensor cannot be inferred.
    """
    require_tensors(cut, {name for node in model.graph.node for name in node.output if name})
    rest = onnx.ModelProto()
    rest.CopyFrom(in_order(model))
    graph = rest.graph
    for node in graph.node:
        for i, name in enumerate(node.output):
            node.output[i] = "" if name in cut else name  # an input gives it instead
    replace_items(graph.node, [node for node in graph.node if any(node.output)])
    replace_items(graph.output, [value for value in graph.output if value.name not in cut])
    graph = (rest := drop_unused(rest)).graph
    read = {name for node in graph.node for name in names_read(node)}
    if read.isdisjoint(cut):
        raise ConfigError(f"{output_option(cut)}: no output of the model lies behind them")
    graph_typed = typed(model).graph
    types = {value.name: value for value in (*graph_typed.value_info, *graph_typed.output)}
    given = [_known(name, types) for name in cut if name in read]
    if products := _products_in_front(graph, set(cut)):
        notice(
            f"products of the rest that read no tensor of the cut: {len(products)}, the last one "
            f"gives {products[-1]}; to leave them to the network in front, name it or what is made "
            f"of it as well: {output_option(cut, more=True)}"
        )
    replace_items(graph.input, [*given, *(value for value in graph.input if value.name in read)])
    return rest


def _products_in_front(graph: onnx.GraphProto, cut: set[str]) -> list[str]:
    """Return what products give that depend on inputs of the model and on no tensor of the cut."""
    inputs = {value.name for value in graph.input} - {item.name for item in graph.initializer}
    front, behind = inputs - cut, set(cut)
    products: list[str] = []
    for node in graph.node:
        reads = set(names_read(node))
        if not behind.isdisjoint(reads):
            behind.update(node.output)
        elif node.op_type not in OF_SHAPES and not front.isdisjoint(reads):
            front.update(node.output)
            products += node.output[:1] if node.op_type in PRODUCTS else []
    return products


def _known(name: str, types: dict[str, onnx.ValueInfoProto]) -> onnx.ValueInfoProto:
    value = types.get(name)
    if value is None or not value.type.tensor_type.elem_type:
        raise FrontendError(
            f"the type of tensor {name} cannot be inferred: cut behind an operator of the standard"
        )
    return value
