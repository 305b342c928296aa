"""How many boxes of a suppression a graph reads at most.

Exporters keep all boxes that do not overlap, then cut the list: ``nms(...)[:300]``. Those that are
kept come in falling order of scores, so that the others need not be looked for.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from relay_int8.frontend.onnx.nested import graphs_in
from relay_int8.frontend.onnx.operators.constant_nodes import attribute

PASSING = frozenset({"Cast", "Identity"})
"""Operators that give each row back."""


def rows_read(graph: onnx.GraphProto) -> dict[str, int]:
    """Return the results of NonMaxSuppression of which only some first rows are read, and how many.

    Parameters
    ----------
    graph
        The graph; suppressions in its branches are found too.
    """
    reading = _Reading(graph)
    found = {
        node.output[0]: reading.of(node.output[0])
        for each in reading.graphs
        for node in each.node
        if node.op_type == "NonMaxSuppression" and node.output
    }
    return {name: count for name, count in found.items() if count is not None}


class _Reading:
    """Who reads what, in a graph and in its branches."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graphs = list(graphs_in(graph))
        self._outputs = {value.name for value in graph.output}
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        self._outside: dict[str, list[str]] = {}
        self._constants: dict[str, onnx.TensorProto] = {}
        for each in self.graphs:
            self._constants |= {tensor.name: tensor for tensor in each.initializer}
            for node in each.node:
                for name in node.input:
                    self._readers.setdefault(name, []).append(node)
                for entry in node.attribute:
                    if node.op_type == "Constant" and entry.name == "value" and node.output:
                        self._constants[node.output[0]] = entry.t
                    if entry.type == onnx.AttributeProto.GRAPH:
                        for inner, outer in zip(entry.g.output, node.output, strict=False):
                            self._outside.setdefault(inner.name, []).append(outer)

    def of(self, name: str) -> int | None:
        """Return how many rows of a tensor are read at most; None if that is not known."""
        if name in self._outputs:
            return None
        read = [self.of(outer) for outer in self._outside.get(name, ())]
        read += [self._by(node, name) for node in self._readers.get(name, ())]
        return None if None in read else max((count for count in read if count), default=None)

    def _by(self, node: onnx.NodeProto, name: str) -> int | None:
        if node.input[0] != name or name in node.input[1:] or not node.output:
            return None
        if node.op_type in PASSING:
            return self.of(node.output[0])
        if node.op_type == "Gather" and attribute(node, "axis") == 1:
            return self.of(node.output[0])
        if node.op_type == "Squeeze" and self._integers(node, 1) in ([1], [-1]):
            return self.of(node.output[0])
        if node.op_type != "Slice":
            return None
        starts, ends, axes, steps = (self._integers(node, number) for number in range(1, 5))
        if axes == [1]:
            return self.of(node.output[0])
        is_first = starts == [0] and axes in ([0], None) and steps in ([1], None)
        return ends[0] if is_first and ends is not None and ends[0] > 0 else None

    def _integers(self, node: onnx.NodeProto, number: int) -> list[int] | None:
        """Return a constant operand; None where it is left out, or no constant."""
        name = node.input[number] if number < len(node.input) else ""
        if name not in self._constants:
            return None
        return [int(n) for n in np.ravel(numpy_helper.to_array(self._constants[name]))]
