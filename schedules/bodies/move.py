"""Move elements: repack between layouts, reshape, transpose, slice, shuffle, pad, nearest resize.

    x : logical x_shape, any layout
    y : logical y_shape, any layout; float32 lanes past the last channel are 0
    fill : (1,) of x's type, for "pad"

Exact:  elements are moved. Loops: see ``elementwise``; whole blocks of lanes are moved as vectors
        where x and y have one blocked layout and a block of y comes from a block of x.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tvm import tirx
from tvm.tirx import Expr

from schedules.bodies.body import Body
from schedules.bodies.elementwise import any_layouts, elementwise_kernel
from schedules.bodies.expressions import OutputElement, is_same
from schedules.layout import ROW
from schedules.spec import Move
from schedules.template import Layouts


def kernel(spec: Move, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    return elementwise_kernel(
        spec, layouts, _moved, contiguous_run(spec, layouts), pieces=_pieces(spec, layouts)
    )


def _moved(point: OutputElement) -> Expr:
    index = _SOURCES[point.spec.move](point.spec, point.logical)
    if point.spec.move == "copy":
        return point.here("x")
    value = point.at("x", index)
    if point.spec.move != "pad":
        return value
    return tirx.if_then_else(_is_inside(point, index), value, point.param("fill"))


def _copy(spec: Move, index: Sequence[Expr]) -> Sequence[Any]:
    return index


def _reshape(spec: Move, index: Sequence[Expr]) -> Sequence[Any]:
    offset: Any = sum(i * math.prod(spec.y_shape[axis + 1 :]) for axis, i in enumerate(index))
    source = []
    for axis in range(len(spec.x_shape)):
        stride = math.prod(spec.x_shape[axis + 1 :])
        source.append(offset // stride if stride != 1 else offset)
        offset = offset % stride if stride != 1 else 0
    return source


def _transpose(spec: Move, index: Sequence[Expr]) -> Sequence[Any]:
    return [index[spec.arguments.index(axis)] for axis in range(len(index))]


def _slice(spec: Move, index: Sequence[Expr]) -> Sequence[Any]:
    rank = len(index)
    begins, steps = spec.arguments[:rank], spec.arguments[rank:]
    return [begin + i * step for begin, i, step in zip(begins, index, steps, strict=True)]


def _shuffle(spec: Move, index: Sequence[Expr]) -> Sequence[Any]:
    digits, axes, joined, begins = spec.shuffle_parts
    turned = [digits[axis] for axis in axes]
    values: list[Any] = [0] * len(digits)
    coordinates: list[Any] = [i + begin for i, begin in zip(index[1:], begins, strict=True)]
    for coordinate, run in zip(coordinates, digit_runs(turned, joined), strict=True):
        for at in reversed(run):
            values[axes[at]] = coordinate % turned[at] if at != run[0] else coordinate
            coordinate = coordinate // turned[at]
    source: list[Any] = [index[0]]
    for run in digit_runs(digits, spec.x_shape[1:]):
        source.append(0)
        for at in run:
            source[-1] = source[-1] * digits[at] + values[at]
    return source


def digit_runs(digits: Sequence[int], extents: Sequence[Any]) -> Iterator[range]:
    """Yield which of ``digits`` each of ``extents`` is cut into."""
    end = 0
    for extent in extents:
        start, product = end, 1
        while product < extent:
            product *= digits[end]
            end += 1
        yield range(start, end)


def _pad(spec: Move, index: Sequence[Expr]) -> Sequence[Any]:
    return [i - before for i, before in zip(index, spec.arguments, strict=True)]


def _edge(spec: Move, index: Sequence[Expr]) -> Sequence[Any]:
    return _outside(spec, index, lambda i, last: tirx.max(tirx.min(i, last), 0))


def _reflect(spec: Move, index: Sequence[Expr]) -> Sequence[Any]:
    def _mirrored(i: Expr, last: int) -> Expr:
        magnitude = tirx.max(i, -i)
        return tirx.min(magnitude, 2 * last - magnitude)

    return _outside(spec, index, _mirrored)


def _outside(
    spec: Move, index: Sequence[Expr], inside: Callable[[Expr, int], Expr]
) -> Sequence[Any]:
    """Return the index in x, where ``inside(i, last)`` says what is seen beyond an axis."""
    axes = zip(_pad(spec, index), spec.x_shape, spec.y_shape, strict=True)
    return [i if is_same(size, y_size) else inside(i, size - 1) for i, size, y_size in axes]


def _resize(spec: Move, index: Sequence[Expr]) -> Sequence[Any]:
    return [
        i if is_same(x_size, y_size) else i * x_size // y_size
        for i, x_size, y_size in zip(index, spec.x_shape, spec.y_shape, strict=True)
    ]


_SOURCES: dict[str, Callable[[Move, Sequence[Expr]], Sequence[Any]]] = {
    "copy": _copy,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "shuffle": _shuffle,
    "pad": _pad,
    "edge": _edge,
    "reflect": _reflect,
    "resize": _resize,
}


def _is_inside(point: OutputElement, index: Sequence[Any]) -> Expr:
    """Say whether an index of a padded axis, or the block that it is in, lies inside x."""
    spec, block = point.spec, point.layouts.output.block
    inside: Any = tirx.const(True, "bool")
    for axis, (i, x_size) in enumerate(zip(index, spec.x_shape, strict=True)):
        if is_same(x_size, spec.y_shape[axis]):
            continue
        if axis == 1 and block and keeps_blocks(spec, block):
            i, x_size = i // block, x_size // block
        inside = tirx.all(inside, i >= 0, i < x_size)
    return inside


def contiguous_run(spec: Move, layouts: Layouts) -> int:
    """Return over how many trailing axes of y one run of x is moved."""
    layout = layouts.output
    if spec.move == "transpose":
        return _transposed_run(spec, layouts)
    if layouts.inputs[0] != layout:
        return 0
    rank = len(layout.physical_shape(spec.y_shape))
    if spec.move == "copy" or (spec.move == "reshape" and layout == ROW):
        return rank
    if spec.move == "reshape":
        return 0
    if spec.move == "shuffle":
        return int(layout.block > 0 and _moves_blocks(spec, layout.block))
    order = range(rank) if layout == ROW else (0, 1, 2, 3) if layout.block else (0, 2, 3, 1)
    kept = [is_same(spec.x_shape[axis], spec.y_shape[axis]) for axis in order]
    contiguous = [spec.move == "slice" and spec.arguments[len(kept) + axis] == 1 for axis in order]
    run = next((i for i, same in enumerate(reversed(kept)) if not same), rank)
    if layout.block:
        return run + 1 if keeps_blocks(spec, layout.block) else 0
    # A slice of the next axis is still one run.
    return run + 1 if run < len(kept) and contiguous[-run - 1] else run


def _transposed_run(spec: Move, layouts: Layouts) -> int:
    """Return the axes that stay behind all others, or the lanes of a block."""
    source, layout, axes = layouts.inputs[0], layouts.output, spec.arguments
    if source == layout == ROW:
        kept = [axis == index for index, axis in enumerate(axes)]
        return next((i for i, same in enumerate(reversed(kept)) if not same), len(axes))
    whole = layout.block > 0 and spec.y_shape[1] % layout.block == 0
    return int(source == ROW and whole and axes[1] == len(axes) - 1)


def _pieces(spec: Move, layouts: Layouts) -> int:
    """Return how many neighbours in y are neighbours in a block of x; 0 where none need be."""
    source, axes = layouts.inputs[0], spec.arguments
    if spec.move != "transpose" or layouts.output != ROW or not source.block or axes[-1] != 1:
        return 0
    return source.block if spec.x_shape[1] % source.block == 0 else 0


def keeps_blocks(spec: Move, block: int) -> bool:
    """Say whether every block of channels of y lies in one block of x; transpose, shuffle apart."""
    if spec.move == "reshape":  # to other images: of blocks in their order, if these stay whole
        dims = spec.x_shape, spec.y_shape
        if not len(dims[0]) == len(dims[1]) == 4 or any(dim[1] % block for dim in dims):
            return False
        return all(is_same(x, y) for x, y in zip(dims[0][2:], dims[1][2:], strict=True))
    if is_same(spec.x_shape[1], spec.y_shape[1]):
        return True
    if spec.move == "pad":
        return bool(spec.arguments[1] % block == 0 and spec.x_shape[1] % block == 0)
    begin, step = (spec.arguments[1], spec.arguments[5]) if spec.move == "slice" else (1, 1)
    return bool(begin % block == 0 and step == 1)


def _moves_blocks(spec: Move, block: int) -> bool:
    """Say whether a shuffle takes every block of channels of y from one block of x, in order."""
    digits, axes, joined, begins = spec.shuffle_parts
    x_run, y_run = (
        next(digit_runs(digits, spec.x_shape[1:])),
        next(digit_runs([digits[axis] for axis in axes], joined)),
    )
    if not x_run or not y_run or axes[y_run[-1]] != x_run[-1] or begins[0] % block:
        return False
    is_uncut = digits[x_run[-1]] == spec.x_shape[1] == joined[0]
    return is_uncut or digits[x_run[-1]] % block == 0


MOVE = Body(kind="move", layouts=any_layouts, kernel=kernel)
