"""Matrices of batches and heads, as they lie in the memory of the tensor they are taken from.

    heads split off a row of channels, a transposition, a part of a packed tensor, broadcasting

Reshapes, permutations and slices between a tensor and a matrix product move no number: the product
steps through the tensor's own memory, where that can be said by one step for each axis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from schedules.spec import Size, Strides
from schedules.spec.text import factors

Array = np.ndarray[Any, np.dtype[Any]]
MOVES = ("reshape", "permute_dims", "strided_slice")
OPEN = 2  # extent that stands for an open batch where positions are counted
MOST_COUNTED = 1 << 24  # elements of a tensor whose offsets are listed one by one


@dataclass(frozen=True, kw_only=True)
class Positions:
    """Where matrices lie: ``first`` of each, (outer,), and the steps of row and column."""

    first: Array
    row: int
    column: int

    def strides(self, batch: int, heads: int) -> Strides | None:
        """Return the steps of ``outer`` taken as batch * heads, or None where there are no such."""
        grid = self.first.reshape(batch, heads)
        steps = [_step(grid[:, 0]), _step(grid[0])]
        expected = grid[0, 0] + steps[0] * np.arange(batch)[:, None] + steps[1] * np.arange(heads)
        if not np.array_equal(grid, expected):
            return None
        return (int(grid[0, 0]), steps[0], steps[1], self.row, self.column)


@dataclass(frozen=True, kw_only=True)
class Outer:
    """The axes before those of a matrix: batch, which may be open, and heads."""

    batch: Size
    heads: int


def counted(shape: Sequence[Any]) -> tuple[int, ...]:
    """Return a shape in numbers, an open batch as :data:`OPEN`."""
    return tuple(size if isinstance(size, int) else OPEN * factors(size)[0] for size in shape)


def is_countable(shape: Sequence[Any]) -> bool:
    """Say whether at most the first extent is open, and that is a multiple of the batch."""
    return is_movable(shape) and all(isinstance(size, int) for size in shape[1:])


def is_movable(shape: Sequence[Any]) -> bool:
    """Say whether at most one extent is open, and that is a multiple of the batch."""
    is_open = [size for size in shape if not isinstance(size, int)]
    return len(is_open) <= 1 and all(len(factors(size)[1]) == 1 for size in is_open)


def read_through(
    source: relax.Var, layout_calls: Iterable[relax.Call], turned: bool
) -> Positions | None:
    """Return where the matrices lie that ``layout_calls`` make of ``source``, first call first.

    ``turned``: rows are the last axis and columns the one before. None: not at even steps.
    """
    shape, calls = counted(dataflow.shape(source)), list(layout_calls)
    if not calls:
        matrix = _row_major(shape)
        return replace(matrix, row=matrix.column, column=matrix.row) if turned else matrix
    if math.prod(shape) > MOST_COUNTED:
        return None
    offsets = np.arange(math.prod(shape)).reshape(shape)
    for call in calls:
        offsets = _moved(offsets, call)
    return _positions(offsets.swapaxes(-1, -2) if turned else offsets)


def written_through(shape: Sequence[Any], layout_calls: Sequence[relax.Call]) -> Positions | None:
    """Return where matrices of ``shape`` lie in the result of ``layout_calls``."""
    dims = counted(shape)
    if not layout_calls:
        return _row_major(dims)
    if math.prod(dims) > MOST_COUNTED:
        return None
    elements = np.arange(math.prod(dims)).reshape(dims)
    for call in layout_calls:
        elements = _moved(elements, call)
    offsets = np.empty(elements.size, np.int64)
    offsets[elements.reshape(-1)] = np.arange(elements.size)
    return _positions(offsets.reshape(dims))


def broadcast_to(source: relax.Var, shape: Sequence[Any]) -> Positions | None:
    """Return where the matrices of ``source``, broadcast to ``shape``, lie."""
    own, dims = counted(dataflow.shape(source)), counted(shape)
    steps = np.cumprod([1, *reversed(own[1:])])[::-1] if own else np.array([], np.int64)
    padded = [(1, 0)] * (len(dims) - len(own)) + list(zip(own, steps, strict=True))
    by_axis = [0 if extent == 1 else int(step) for extent, step in padded]
    first = np.zeros((), np.int64)
    for extent, step in zip(dims[:-2], by_axis[:-2], strict=True):
        first = first[..., None] + step * np.arange(extent)
    return Positions(first=first.reshape(-1), row=by_axis[-2], column=by_axis[-1])


def outer_of(
    shapes: Sequence[Sequence[Any]], memory: Sequence[Sequence[Any]], positions: Sequence[Positions]
) -> Outer | None:
    """Return how the leading axes of a product are taken as batch and heads, or None.

    Parameters
    ----------
    shapes
        Of the products in question; their leading axes count the same matrices.
    memory
        Shapes of the tensors that the kernel reads and writes. An open batch is the first extent of
        one of them, since a kernel knows no other size.
    positions
        Of the matrices in those tensors, and of a mask.
    """
    total = math.prod(counted(shapes[0])[:-2])
    is_open = any(not isinstance(shape[0], int) for shape in shapes)
    batches = _open_batches(memory) if is_open else _batches(shapes, total)
    for batch in batches:
        (size,) = counted([batch])
        heads = total // size
        if size * heads == total and all(
            each.strides(size, heads) is not None for each in positions
        ):
            return Outer(batch=batch, heads=heads)
    return None


def _batches(shapes: Sequence[Sequence[Any]], total: int) -> list[Size]:
    """Return how many times the leading axes, from any of them on, may be repeated.

    Behind them all other numbers: a product may have batch and heads as one axis.
    """
    heads = [math.prod(shape[axis:-2]) for shape in shapes for axis in range(len(shape) - 1)]
    divisors = [each for each in range(1, total + 1) if total % each == 0]
    return [total // each for each in dict.fromkeys([*heads, *divisors])]


def _open_batches(memory: Sequence[Sequence[Any]]) -> list[Size]:
    """Return the open extents that tensors begin with, the batch itself first."""
    extents = {factors(shape[0])[0]: shape[0] for shape in memory if not isinstance(shape[0], int)}
    return [extents[factor] for factor in sorted(extents)]


def strides_of(outer: Outer, positions: Positions) -> Strides:
    """Return the steps that :func:`outer_of` has found."""
    (batch,) = counted([outer.batch])
    strides = positions.strides(batch, outer.heads)
    assert strides is not None
    return strides


def keeps_matrices(call: relax.Call) -> bool:
    """Say whether ``call`` reshapes nothing but the axes before those of a matrix."""
    if dataflow.operator(call) != "reshape":
        return False
    return dataflow.shape(call)[-2:] == dataflow.shape(call.args[0])[-2:]


def repeated(positions: Positions, own: Sequence[Any], outer: Sequence[Any]) -> Positions:
    """Return positions of matrices with leading axes ``own`` that are broadcast to ``outer``."""
    dims = counted(outer)
    grid = positions.first.reshape((1,) * (len(dims) - len(own)) + counted(own))
    return Positions(
        first=np.broadcast_to(grid, dims).reshape(-1).copy(),
        row=positions.row,
        column=positions.column,
    )


def packed_positions(matrices: Array) -> Positions:
    """Return where the matrices of (outer, rows, columns) lie."""
    return _row_major(matrices.shape)


def _row_major(shape: Sequence[int]) -> Positions:
    """Return where the matrices of a tensor lie that nothing moves."""
    *outer, rows, columns = shape
    first = np.arange(math.prod(outer)) * rows * columns
    return Positions(first=first, row=columns if rows > 1 else 0, column=1 if columns > 1 else 0)


def _moved(x: Array, call: relax.Call) -> Array:
    operator = dataflow.operator(call)
    if operator == "reshape":
        return x.reshape(counted(dataflow.shape(call)))
    if operator == "permute_dims":
        axes = call.attrs.axes
        return x.transpose([int(axis) for axis in axes] if axes else None)
    if operator != "strided_slice":
        return x  # a factor: nothing moves
    begins, steps = dataflow.slice_steps(call)
    sizes = counted(dataflow.shape(call))
    return x[
        tuple(
            slice(begin, begin + (size - 1) * step + 1, step)
            for begin, step, size in zip(begins, steps, sizes, strict=True)
        )
    ]


def _positions(offsets: Array) -> Positions | None:
    """Return what says of each element (..., row, column) where it lies, or None."""
    matrices = offsets.reshape(-1, *offsets.shape[-2:])
    rows, columns = matrices.shape[1:]
    row, column = _step(matrices[0, :, 0]), _step(matrices[0, 0])
    inside = row * np.arange(rows)[:, None] + column * np.arange(columns)
    if not np.array_equal(matrices - matrices[:, :1, :1], np.broadcast_to(inside, matrices.shape)):
        return None
    return Positions(first=matrices[:, 0, 0].copy(), row=row, column=column)


def _step(offsets: Array) -> int:
    return int(offsets[1] - offsets[0]) if len(offsets) > 1 else 0
