"""Elements that a computed mask says where to write, as one node of a known shape.

    Before:  y = ScatterND(x, Transpose(NonZero(mask)), Slice(source, 0, count))
    After:   y = MaskedScatter(x, mask, source)

    Before:  y = ScatterND(x, Transpose(NonZero(mask)), Reshape(Expand(rows, Concat(count, dims))))
    After:   y = MaskedScatter(x, mask, rows, dims)

PyTorch writes ``masked_scatter`` as the first, ``x[mask] = rows`` as the second: so language models
put tokens of images among those of a text. ``count`` is how many elements, or rows, of the mask are
true.
"""

from __future__ import annotations

import math

import onnx
from onnx import numpy_helper

from relay_int8.frontend.onnx.rewrites.masked_fills import masked_fill
from relay_int8.frontend.onnx.rewrites.producers import (
    Producers,
    origin_of,
    places_of,
    produced_by,
    producers_of,
)

MASKED = "MaskedScatter"
SAME_COUNT = {
    "Cast",
    "Expand",
    "Gather",
    "ReduceSum",
    "Reshape",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
}
"""Between a mask, or its indices, and the number of true values."""


def find_masked_writes(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return ``model`` with such writes as one node each; itself where there are none."""
    producers = producers_of(model.graph)
    numbers = _numbers(model.graph)
    nodes = [_masked_write(node, producers, numbers) or node for node in model.graph.node]
    if all(new is old for new, old in zip(nodes, model.graph.node, strict=True)):
        return model
    rewritten = onnx.ModelProto()
    rewritten.CopyFrom(model)
    del rewritten.graph.node[:]
    rewritten.graph.node.extend(nodes)
    return rewritten


def _masked_write(
    node: onnx.NodeProto,
    producers: Producers,
    numbers: dict[str, onnx.TensorProto],
) -> onnx.NodeProto | None:
    if node.op_type != "ScatterND" or len(node.input) != 3 or node.input[2] not in producers:
        return None
    if any(entry.name == "reduction" and entry.s != b"none" for entry in node.attribute):
        return None
    if (fill := masked_fill(node, producers, numbers)) is not None:
        return fill
    zeros = {name for name, tensor in numbers.items() if not numpy_helper.to_array(tensor).any()}
    x, indices, updates = node.input
    found = places_of(producers, indices)
    if found is None:
        return None
    operands = _slice_of(producers, updates, zeros) or _rows_of(producers, updates)
    if operands is None:
        return None
    *operands, count = operands
    of_mask, of_count = (origin_of(producers, name, SAME_COUNT) for name in (found.input[0], count))
    if of_count not in (of_mask, found.output[0]):
        return None
    return onnx.helper.make_node(
        MASKED, [x, found.input[0], *operands], list(node.output), name=node.name
    )


def _numbers(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """Return the constants of one element by name."""
    constants = [(tensor.name, tensor) for tensor in graph.initializer]
    constants += [
        (name, attribute.t)
        for node in graph.node
        if node.op_type == "Constant"
        for attribute in node.attribute
        if attribute.name == "value"
        for name in node.output
    ]
    return {name: tensor for name, tensor in constants if math.prod(tensor.dims) == 1}


def _slice_of(producers: Producers, name: str, zeros: set[str]) -> list[str] | None:
    """Return the source of ``Slice(source, 0, count)``, and the count."""
    part = produced_by(producers, name, "Slice")
    if (
        part is None
        or not 3 <= len(part.input) <= 4
        or not {part.input[1], *part.input[3:]} <= zeros
    ):
        return None
    shape = produced_by(producers, origin_of(producers, part.input[2], SAME_COUNT), "Shape")
    return None if shape is None else [part.input[0], shape.input[0]]


def _rows_of(producers: Producers, name: str) -> list[str] | None:
    """Return the rows of ``Reshape(Expand(rows, Concat(count, dims)))``, dims, and the count."""
    flat = produced_by(producers, name, "Reshape")
    whole = produced_by(producers, flat.input[0], "Expand", 2) if flat is not None else None
    dims = produced_by(producers, whole.input[1], "Concat") if whole is not None else None
    if whole is None or dims is None or len(dims.input) != 2:
        return None
    return [whole.input[0], dims.input[1], dims.input[0]]
