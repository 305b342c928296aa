"""Concatenate tensors of one type and scale along an axis.

    x0, x1, ... : logical, each in any layout
    y           : logical, any layout; float32 lanes past the last channel are 0

Where the boundaries between the inputs fall between blocks of one common layout, the axes after the
concatenated one are copied as flat runs. Otherwise elements are gathered one by one.

Exact:  elements are moved. Loops: see ``elementwise``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.body import Body, symbolic_axis
from schedules.bodies.elementwise import any_layouts, elementwise_kernel
from schedules.bodies.expressions import OutputElement
from schedules.spec import Concat
from schedules.template import Layouts


def refuses(spec: Concat) -> str | None:
    """Say why it cannot be computed, or None."""
    if not all(isinstance(shape[spec.axis], int) for shape in spec.shapes):
        return f"axis {spec.axis}, along which it concatenates, is symbolic"
    return symbolic_axis(spec)


def kernel(spec: Concat, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    if is_aligned(spec, layouts):
        rank = len(layouts.output.physical_shape(spec.shape("y")))
        run = rank - 1 - physical_axis(spec, layouts)
        return elementwise_kernel(spec, layouts, _aligned, run)
    return elementwise_kernel(spec, layouts, _gathered, 0)


def adjoins(spec: Concat, layouts: Layouts) -> bool:
    """Say whether the inputs lie in y one behind the other, each in one piece."""
    if not is_aligned(spec, layouts):
        return False
    outer = layouts.output.physical_shape(spec.shape("y"))[: physical_axis(spec, layouts)]
    return all(isinstance(size, int) and size == 1 for size in outer)


def physical_axis(spec: Concat, layouts: Layouts) -> int:
    """Return the axis in memory that the concatenated one becomes."""
    index = [0] * len(spec.shape("y"))
    index[spec.axis] = max(layouts.output.block, 1)
    moved = layouts.output.physical_index(index)
    return next(axis for axis, position in enumerate(moved) if position)


def is_aligned(spec: Concat, layouts: Layouts) -> bool:
    """Say whether every boundary falls between blocks of one common layout."""
    if any(layout != layouts.output for layout in layouts.inputs):
        return False
    block = layouts.output.block if spec.axis == 1 else 0
    return not block or all(int(shape[1]) % block == 0 for shape in spec.shapes[:-1])


def _aligned(point: OutputElement) -> Expr:
    axis = physical_axis(point.spec, point.layouts)
    sizes = [
        layout.physical_shape(shape)[axis]
        for layout, shape in zip(point.layouts.inputs, point.spec.shapes, strict=True)
    ]
    index = point.physical

    def _read(name: str, start: int) -> Expr:
        return point.tensors[name](*index[:axis], index[axis] - start, *index[axis + 1 :])

    return _chosen(point.spec.tensors, sizes, index[axis], _read)


def _gathered(point: OutputElement) -> Expr:
    axis, index = point.spec.axis, point.logical
    sizes = [int(shape[axis]) for shape in point.spec.shapes]

    def _read(name: str, start: int) -> Expr:
        return point.at(name, (*index[:axis], index[axis] - start, *index[axis + 1 :]))

    return _chosen(point.spec.tensors, sizes, index[axis], _read)


def _chosen(
    names: Sequence[str],
    sizes: Sequence[int],
    position: Expr,
    read: Callable[[str, int], Expr],
) -> Expr:
    """Read the input whose part of the axis ``position`` lies in."""
    ends = list(itertools.accumulate(sizes))
    value = read(names[-1], ends[-1] - sizes[-1])
    for name, size, end in reversed(list(zip(names, sizes, ends, strict=True))[:-1]):
        value = tirx.if_then_else(position < end, read(name, end - size), value)
    return value


CONCAT = Body(kind="concat", layouts=any_layouts, kernel=kernel, refuses=refuses)
