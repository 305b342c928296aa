"""All nodes, attributes, graphs and tensors of a model: of branches, loops and functions too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto


def nested_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield nodes, and those of their branches and loops."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from nested_nodes(attribute.g.node)


def attributes_of(model: ModelProto) -> Iterator[AttributeProto]:
    """Yield the attributes of every node."""
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in nested_nodes(nodes):
            yield from node.attribute


def graphs_in(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph, and those of its branches and loops."""
    yield graph
    for node in nested_nodes(graph.node):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield attribute.g


def graphs_of(model: ModelProto) -> Iterator[GraphProto]:
    """Yield the graph of a model, and those of branches and loops."""
    yield model.graph
    for attribute in attributes_of(model):
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g


def tensors_of(model: ModelProto) -> Iterator[TensorProto]:
    """Yield the initializers of every graph and the tensors of attributes; sparse ones are none."""
    for graph in graphs_of(model):
        yield from graph.initializer
    for attribute in attributes_of(model):
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
