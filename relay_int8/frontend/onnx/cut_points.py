"""Where a model can be cut in front of nodes that cannot be imported.

The tensors of a cut are all that the nodes behind it read of those before it, so that what is left
out can be computed from them: of a detector, the maps of its heads, not the mask alone whose
``NonZero`` was refused.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from relay_int8.frontend.onnx.nested import nested_nodes
from relay_int8.frontend.onnx.rewrites.masked_writes import find_masked_writes
from relay_int8.frontend.onnx.rewrites.node_order import in_order, names_read
from relay_int8.frontend.onnx.rewrites.unused import drop_unused

SIZED_BY_VALUES = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""Operators whose results have as many rows as values say."""
SHAPE_OPERANDS = {"ConstantOfShape": (0,), "Expand": (1,), "Range": (0, 1, 2), "Tile": (1,)}
"""Operators whose results have the shape that operands say, the numbers of these operands."""
OF_SHAPES = frozenset({"Shape", "Size"})
"""Operators that read no values: what they give is known when the file is read."""
PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Operators that whoever cuts a network wants on this side of the cut."""


def cut_points(model: onnx.ModelProto, refused: Iterable[onnx.NodeProto]) -> tuple[str, ...]:
    """Return the tensors that refused nodes, and all that depends on these, read of the others.

    Parameters
    ----------
    model
        The model of the file.
    refused
        Nodes that cannot be imported.

    Returns
    -------
    Names in the order of the file, with the outputs that depend on no refused node. A tensor that
    others of them give without a product is none of them. Where the file has no such node, as one
    of a function, what the nodes read.
    """
    nodes = list(refused)
    graph = drop_unused(find_masked_writes(in_order(model))).graph  # these are of a known shape
    results = {name for node in nodes for name in node.output if name}
    computed = _computed(graph)
    behind = _behind(graph.node, computed, results)
    if results.isdisjoint(behind):
        return tuple(name for node in nodes for name in node.input)
    read = {
        name
        for node in graph.node
        if not behind.isdisjoint(node.output)
        for name in names_read(node)
    }
    outputs = {value.name for value in graph.output} & computed - behind
    needed = _merged(graph, computed, (read & computed - behind) - outputs) | outputs
    points, given = [], set(needed)
    for node in graph.node:
        operands = _operands(node, computed)
        is_given = bool(operands) and operands <= given
        given.update(node.output if is_given else ())
        points += [n for n in node.output if n in outputs or (n in needed and not is_given)]
    return tuple(points)


def _merged(graph: onnx.GraphProto, computed: set[str], needed: set[str]) -> set[str]:
    """Return tensors with one in place of all that several nodes make of it alone.

    SSD compares the scores of each of 91 classes, which a ``Gather`` each reads from one tensor.
    """
    merged = set(needed)
    below: dict[str, set[str]] = {}  # tensor -> those of ``merged`` that are made of it alone
    for node in reversed(graph.node):
        operands = _operands(node, computed)
        for name in node.output:
            made = below.pop(name, set())
            if len(made) > 1:
                merged = merged - made | {name}
            made = {name} if name in merged else made
            if len(operands) == 1:
                below.setdefault(min(operands), set()).update(made)
    return merged


def _operands(node: onnx.NodeProto, computed: set[str]) -> set[str]:
    """Return the computed tensors that a node reads; none of a product, which stays in front."""
    return set() if node.op_type in PRODUCTS else computed.intersection(names_read(node))


def _computed(graph: onnx.GraphProto) -> set[str]:
    """Return the results of nodes that depend on values of an input."""
    weights = {tensor.name for tensor in graph.initializer}
    computed = {value.name for value in graph.input} - weights
    inputs = set(computed)
    for node in graph.node:
        if node.op_type not in OF_SHAPES and not computed.isdisjoint(names_read(node)):
            computed.update(name for name in node.output if name)
    return computed - inputs


def _behind(nodes: Iterable[onnx.NodeProto], computed: set[str], refused: set[str]) -> set[str]:
    """Return the results of refused nodes, and of all nodes that depend on them."""
    behind: set[str] = set()
    for node in nodes:
        reads = set(names_read(node))
        inner = list(nested_nodes([node]))
        is_sized = any(each.op_type in SIZED_BY_VALUES for each in inner)
        shapes = {n for i, n in enumerate(node.input) if i in SHAPE_OPERANDS.get(node.op_type, ())}
        if (
            (is_sized and not computed.isdisjoint(reads))
            or not computed.isdisjoint(shapes)
            or not refused.isdisjoint(name for each in inner for name in each.output)
            or not behind.isdisjoint(reads)
        ):
            behind.update(name for name in node.output if name)
    return behind
