"""Sparse constants of TFLite, read as dense ones.

The axes are levels of a tree, in an order that the file chooses; an axis may be cut into blocks,
whose insides are levels of their own, behind the others. A level lists all its positions (dense),
or for each node above it those that have elements (compressed sparse rows). Elements follow in the
order of the leaves::

    traversal     levels -> axes, from 0 on; from the rank on the insides of blocks
    block map     inside of a block -> its axis
    level         dense: its extent; else segments (node above -> range of indices) and indices
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.tflite.model import TfliteGraph
from relay_int8.frontend.tflite.tables import Array, FlatbufferTable

DENSIFY = "DENSIFY"
DENSE, COMPRESSED = 0, 1
VECTORS = {1: "i4", 2: "u2", 3: "u1"}
"""Type of a table of integers -> dtype of its elements."""
MOST_ELEMENTS = 1 << 26  # of a dense tensor; few bytes of a damaged file could ask for more


def dense_values(values: Array, shape: Sequence[int], sparsity: FlatbufferTable) -> Array:
    """Return a tensor of ``shape`` with the elements of a sparse one, and zero elsewhere.

    Raises
    ------
    ValueError
        The levels do not fit the shape or the elements.
    """
    order, blocked = (sparsity.array(field, "i4").tolist() for field in (0, 1))
    levels = list(sparsity.tables(2))
    rank = len(shape)
    if sorted(order) != list(range(rank + len(blocked))) or len(levels) != len(order):
        raise ValueError(f"{len(levels)} levels in the order {order} for {rank} axes")
    if math.prod(shape) > MOST_ELEMENTS or not set(blocked) <= set(range(rank)):
        raise ValueError(f"blocks of axes {blocked} of {list(shape)}")
    insides = {
        rank + i: int(levels[order.index(rank + i)].number(1, "i")) for i in range(len(blocked))
    }
    extents = [*shape, *insides.values()]
    for inside, axis in enumerate(blocked):
        block = extents[rank + inside]
        if block < 1 or extents[axis] % block:
            raise ValueError(f"blocks of {block} along an extent of {extents[axis]}")
        extents[axis] //= block
    coordinates = _leaves(levels, order, extents)
    if len(coordinates[0]) != values.size:
        raise ValueError(f"{values.size} elements for {len(coordinates[0])} positions")
    for inside in range(len(blocked) - 1, -1, -1):
        axis = blocked[inside]
        coordinates[axis] = coordinates[axis] * extents[rank + inside] + coordinates[rank + inside]
    result = np.zeros(shape, values.dtype)
    result[tuple(coordinates[:rank])] = values
    return result


def _leaves(
    levels: Sequence[FlatbufferTable], order: Sequence[int], extents: Sequence[int]
) -> list[Array]:
    """Return the coordinates of all leaves along each axis and inside of blocks."""
    coordinates: list[Array] = [np.zeros(1, np.int64) for _ in extents]
    for level, axis in zip(levels, order, strict=True):
        count, extent = len(coordinates[0]), extents[axis]
        if level.number(0, "b") == DENSE:
            if level.number(1, "i") != extent:
                raise ValueError(f"a level of {level.number(1, 'i')} positions, not {extent}")
            parents = np.repeat(np.arange(count), extent)
            own = np.tile(np.arange(extent), count)
        else:
            segments, own = _vector(level, 2), _vector(level, 4)
            is_whole = len(segments) == count + 1 and not segments[0] and segments[-1] == len(own)
            if not is_whole or (np.diff(segments) < 0).any() or not (own < extent).all():
                raise ValueError(f"segments or indices that do not fit {count} nodes above")
            parents = np.repeat(np.arange(count), np.diff(segments))
        coordinates = [along[parents] for along in coordinates]
        coordinates[axis] = own
    return coordinates


def _vector(level: FlatbufferTable, field: int) -> Array:
    """Return integers, whose type is one field and whose table the next."""
    kind, table = int(level.number(field, "B")), level.table(field + 1)
    if kind not in VECTORS or table is None:
        raise ValueError(f"indices of type {kind}")
    vector: Array = table.array(0, VECTORS[kind]).astype(np.int64)
    if (vector < 0).any():
        raise ValueError("a negative index")
    return vector


def with_dense_weights(graph: TfliteGraph) -> TfliteGraph:
    """Return a graph without operators that make dense constants of sparse ones: all are dense."""
    tensors = list(graph.tensors)
    operators = []
    for operator in graph.operators:
        if operator.kind != DENSIFY or not operator.inputs or len(operator.outputs) != 1:
            operators.append(operator)
            continue
        weights, result = (tensors[i] for i in (operator.inputs[0], operator.outputs[0]))
        if weights.values is None or weights.dtype != result.dtype:
            raise UnsupportedOpError(f"{DENSIFY} of {weights.name}, which is no constant")
        tensors[operator.outputs[0]] = replace(result, shape=weights.shape, values=weights.values)
    return replace(graph, tensors=tuple(tensors), operators=tuple(operators))
