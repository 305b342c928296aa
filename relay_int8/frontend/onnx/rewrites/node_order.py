"""Put the nodes of a file in the order in which they can be computed.

The standard demands it, ONNX Runtime does not, and tools that convert to float16 append the casts
of inputs behind all other nodes.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import onnx


def in_order(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` with each node behind those that it reads; the model itself if it is so.

    Otherwise nodes stay as near to the order of the file as they can. Nodes in a circle are left to
    whoever reads what they lack.
    """
    nodes = model.graph.node
    producer = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    needs = [{producer[name] for name in names_read(node) if name in producer} for node in nodes]
    if all(max(needed, default=-1) < i for i, needed in enumerate(needs)):
        return model
    order = _order(needs)
    if len(order) < len(nodes):
        return model
    sorted_nodes = [nodes[i] for i in order]
    ordered = onnx.ModelProto()
    ordered.CopyFrom(model)
    del ordered.graph.node[:]
    ordered.graph.node.extend(sorted_nodes)
    return ordered


def names_read(node: onnx.NodeProto) -> Iterator[str]:
    """Yield what a node reads, and what its branches and loops read of the graph around them."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            for inner in attribute.g.node:
                yield from names_read(inner)
            yield from (value.name for value in attribute.g.output)


def _order(needs: list[set[int]]) -> list[int]:
    """Return indices of nodes, each behind those that it needs, the least one that can be next."""
    readers: list[list[int]] = [[] for _ in needs]
    for i, needed in enumerate(needs):
        for source in needed:
            readers[source].append(i)
    missing = [len(needed) for needed in needs]
    ready = [i for i, count in enumerate(missing) if not count]
    order = []
    while ready:
        order.append(heapq.heappop(ready))
        for reader in readers[order[-1]]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, reader)
    return order
