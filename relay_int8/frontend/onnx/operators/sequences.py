"""ONNX operators on lists of tensors, which are lists while a file is read: none is left behind.

How long a list is, and which of its tensors are read, must be known then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_int8.frontend.onnx.operators.operands import known_array
from relay_int8.graph.dataflow import shape

MOST_TENSORS = 4096  # of a list; longer ones come from damaged files

Value = Any  # a tensor, or a list of tensors
Attributes = dict[str, Any]


def _empty(_: relax.BlockBuilder, __: list[Any], ___: Attributes) -> Value:
    return []


def _construct(_: relax.BlockBuilder, inputs: list[Any], __: Attributes) -> Value:
    return list(inputs)


def _insert(_: relax.BlockBuilder, inputs: list[Any], __: Attributes) -> Value:
    """Insert a tensor at a position, at the end where none is given."""
    tensors, tensor, *rest = inputs
    whole = list(tensors)
    end = len(whole)
    index = _position(rest[0], end, most=end) if rest and rest[0] is not None else end
    whole.insert(index, tensor)
    return whole


def _erase(_: relax.BlockBuilder, inputs: list[Any], __: Attributes) -> Value:
    tensors, *rest = inputs
    gone = _position(rest[0], len(tensors)) if rest and rest[0] is not None else len(tensors) - 1
    return [tensor for index, tensor in enumerate(tensors) if index != gone]


def _at(_: relax.BlockBuilder, inputs: list[Any], __: Attributes) -> Value:
    tensors, position = inputs
    tensor: relax.Expr = tensors[_position(position, len(tensors))]
    return tensor


def _length(_: relax.BlockBuilder, inputs: list[Any], __: Attributes) -> Value:
    return relax.const(np.array(len(inputs[0]), "int64"), "int64")


def _concat(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> Value:
    """Join all tensors along an axis, a new one with ``new_axis``."""
    tensors, axis = list(inputs[0]), int(attributes["axis"])
    if not tensors:
        raise NotImplementedError("it joins an empty list")
    if attributes.get("new_axis", 0):
        axis %= len(shape(tensors[0])) + 1
        tensors = [bb.emit(relax.op.expand_dims(tensor, axis)) for tensor in tensors]
    return tensors[0] if len(tensors) == 1 else relax.op.concat(tensors, axis)


def _split(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> Value:
    """Cut a tensor into parts of given extents, of one extent, or of 1 without the axis."""
    x, given = (*inputs, None)[:2]
    axis = int(attributes.get("axis", 0)) % len(shape(x))
    size = shape(x)[axis]
    extents = _extents(given, size)
    if len(extents) > MOST_TENSORS or sum(extents) != size or min(extents) < 1:
        raise ValueError(f"it cuts {size} into {len(extents)} parts")
    ends = np.cumsum(extents).tolist()
    parts = [
        bb.emit(relax.op.strided_slice(x, [axis], [end - extent], [end]))
        for end, extent in zip(ends, extents, strict=True)
    ]
    if given is not None or attributes.get("keepdims", 1):
        return parts
    return [bb.emit(relax.op.squeeze(part, [axis])) for part in parts]


def _extents(given: relax.Expr | None, size: int) -> list[int]:
    if given is None:
        return [1] * size
    array = known_array(given, "the extents of its parts are")
    if array.ndim:
        return [int(extent) for extent in array]
    return [min(int(array), size - begin) for begin in range(0, size, max(int(array), 1))]


def _position(given: relax.Expr, count: int, most: int | None = None) -> int:
    """Return a position from 0 to ``most``, by default the last tensor's; -1 is the last tensor."""
    array = known_array(given, "a position in a list is")
    index = int(array.reshape(()))
    if not -count <= index <= (count - 1 if most is None else most):
        raise ValueError(f"position {index} in a list of {count}")
    return index + count if index < 0 else index


SEQUENCES: dict[str, Callable[[relax.BlockBuilder, list[Any], Attributes], Value]] = {
    "ConcatFromSequence": _concat,
    "SequenceAt": _at,
    "SequenceConstruct": _construct,
    "SequenceEmpty": _empty,
    "SequenceErase": _erase,
    "SequenceInsert": _insert,
    "SequenceLength": _length,
    "SplitToSequence": _split,
}
OF_LISTS = SEQUENCES.keys() - {"SequenceConstruct", "SequenceEmpty", "SplitToSequence"}
"""Operators whose first input is a list."""


def converted(
    op_type: str, bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes
) -> Value:
    """Return what an operator on lists gives.

    Raises
    ------
    NotImplementedError
        How long a list is, or what is read of it, depends on values of the input.
    ValueError
        It reads no list, or a place that is not in it.
    """
    if op_type in OF_LISTS and not is_list(inputs[0]):
        raise ValueError("it reads a list of tensors, and its first input is a tensor")
    value = SEQUENCES[op_type](bb, inputs, attributes)
    if isinstance(value, list) and len(value) > MOST_TENSORS:
        raise NotImplementedError(f"a list of {len(value)} tensors; {MOST_TENSORS} are the most")
    return bb.emit(value) if isinstance(value, relax.Call) else value


def is_list(value: object) -> bool:
    """Whether a value is a list of tensors, of TVM's kind or of Python's."""
    return isinstance(value, list | tuple | tvm.ir.Array)
