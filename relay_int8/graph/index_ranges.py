"""Operators that read or write at positions which a tensor holds, and which positions are valid.

A kernel that is given an invalid one reads or writes memory of others. So inputs of the network
that are indices are checked where they enter (:func:`index_ranges`), and computed indices are
clamped (:mod:`relay_int8.compiler.passes.lower.guard_indices`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from tvm import relax

from relay_int8.errors import UnsupportedOpError
from relay_int8.graph import dataflow

Range = tuple[int, int]

MOVES = (
    "astype",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flatten",
    "permute_dims",
    "reshape",
    "squeeze",
    "tile",
)
"""Operators whose result holds every value of their operands, and no other."""


@dataclass(frozen=True)
class Indexing:
    """Where a call keeps its indices, and the extents that they index.

    Parameters
    ----------
    argument
        Which argument of the call holds the indices; they count from zero.
    extents
        Broadcast against the indices: of one axis (), or of the last dimension's axes (k,).
        Infinite where a value is no index; a symbolic extent (an open batch) is not a number.
    """

    argument: int
    extents: np.ndarray


def indexing(call: relax.Expr) -> Indexing | None:
    """Return how a call indexes one of its arguments by another, or None if it does not."""
    find = _INDEXED.get(dataflow.operator(call))
    return None if find is None else find(call)


def index_ranges(func: relax.Function) -> dict[str, Range]:
    """Return the integers from lowest to highest that an input may hold, of those that are indices.

    Followed from an indexing operator back to the input through operators that move values, shift
    them by one constant, or count negative ones from the end. Inputs that are sliced are left out:
    each part may index another tensor.

    Raises
    ------
    UnsupportedOpError
        If no integer is a valid index wherever one input is used.
    """
    values = dict(dataflow.calls(func))
    ranges: dict[str, Range] = {}
    for value in values.values():
        use = indexing(value)
        if use is None or not _is_one_number(use.extents):
            continue
        high = int(use.extents.reshape(-1)[0]) - 1
        for name, (first, last) in _sources(value.args[use.argument], (0, high), values):
            low, top = ranges.get(name, (first, last))
            ranges[name] = max(low, first), min(top, last)
    for name, (low, high) in ranges.items():
        if low > high:
            raise UnsupportedOpError(
                f"input {name} indexes several tensors, and no integer is a valid index of all: "
                "feed them from inputs of their own"
            )
    return ranges


def _is_one_number(extents: np.ndarray) -> bool:
    """Whether all extents are one known number."""
    return extents.dtype != object and bool((extents == extents.reshape(-1)[0]).all())


def _sources(
    operand: relax.Expr, valid: Range, values: Mapping[relax.Var, relax.Expr]
) -> list[tuple[str, Range]]:
    """Return the inputs whose values an index is, and what they may be for it to be valid."""
    if not isinstance(operand, relax.Var):
        return []
    call = values.get(operand)
    if call is None:
        return [(str(operand.name), valid)] if dataflow.dtype(operand)[:3] in ("int", "uin") else []
    op, (low, high) = dataflow.operator(call), valid
    if op == "astype" and not dataflow.dtype(call.args[0]).lstrip("u").startswith("int"):
        return []
    if op in MOVES:
        parts = dataflow.arguments(call)
        return [source for part in parts for source in _sources(part, valid, values)]
    if op == "where":
        inner = _counted_from_end(call, high + 1, values) if low == 0 else None
        return [] if inner is None else _sources(inner, (-high - 1, high), values)
    if op in ("add", "subtract") and (shift := _shift(call)) is not None:
        variable = next(argument for argument in call.args if isinstance(argument, relax.Var))
        return _sources(variable, (low - shift, high - shift), values)
    return []


def _shift(call: relax.Call) -> int | None:
    """Return the one number that a call adds to its operand, or None."""
    a, b = (dataflow.constant(argument) for argument in call.args)
    array = b if dataflow.operator(call) == "subtract" or b is not None else a
    if array is None or array.size == 0 or (array != array.reshape(-1)[0]).any():
        return None
    number = int(array.reshape(-1)[0])
    return -number if dataflow.operator(call) == "subtract" else number


def _counted_from_end(
    call: relax.Call, extent: int, values: Mapping[relax.Var, relax.Expr]
) -> relax.Expr | None:
    """Return i of ``where(i < 0, i + extent, i)``, or None."""
    condition, wrapped, plain = (values.get(argument, argument) for argument in call.args)
    index = call.args[2]
    if dataflow.operator(condition) != "less" or dataflow.operator(wrapped) != "add":
        return None
    zero, shift = dataflow.constant(condition.args[1]), _shift(wrapped)
    same = condition.args[0].same_as(index) and wrapped.args[0].same_as(index)
    is_zero = zero is not None and not zero.any()
    return index if same and is_zero and shift == extent and plain is not None else None


def _extents(call: relax.Call, first: int, count: int) -> np.ndarray:
    return np.array(dataflow.shape(call.args[0])[first : first + count])


def _take(call: relax.Call) -> Indexing:
    dims, axis = dataflow.shape(call.args[0]), call.attrs.axis
    return Indexing(1, np.array(np.prod(dims) if axis is None else dims[int(axis)]))


def _elements(call: relax.Call) -> Indexing:
    return Indexing(1, np.array(dataflow.shape(call.args[0])[int(call.attrs.axis)]))


def _gather_nd(call: relax.Call) -> Indexing:
    depth = dataflow.shape(call.args[1])[-1]
    return Indexing(1, _extents(call, int(call.attrs.batch_dims), depth))


def _scatter_nd(call: relax.Call) -> Indexing:
    return Indexing(1, _extents(call, 0, dataflow.shape(call.args[1])[-1]))


def _regions(call: relax.Call) -> Indexing:
    """Index by the first of five numbers, the others are corners."""
    return Indexing(1, np.array([dataflow.shape(call.args[0])[0], *[np.inf] * 4]))


_INDEXED: Mapping[str, Callable[[relax.Call], Indexing]] = MappingProxyType(
    {
        "gather_elements": _elements,
        "gather_nd": _gather_nd,
        "scatter_elements": _elements,
        "scatter_nd": _scatter_nd,
        "take": _take,
        "vision.roi_align": _regions,
        "vision.roi_pool": _regions,
    }
)
