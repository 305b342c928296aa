"""TFLite operators that cut tensors: slices and splits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from tvm import relax

from relay_int8.frontend.tflite.step import Converter, TfliteStep
from relay_int8.frontend.tflite.tensors import Result
from relay_int8.graph.dataflow import shape


def _slice(step: TfliteStep) -> Result:
    """Slice by begin and size of every axis; a size of -1 is all that is left."""
    begins, lengths = step.integers(1, "begin"), step.integers(2, "size")
    if step.scaled:
        lengths = step.outputs[0].shape
    dims = step.shape(0)
    if not len(begins) == len(lengths) == len(dims):
        raise ValueError(f"begin {list(begins)} and size {list(lengths)} of {list(dims)}")
    ranges = [
        range(begin, dim if size == -1 else begin + size)
        for begin, size, dim in zip(begins, lengths, dims, strict=True)
    ]
    return _sliced(step, ranges)


def _strided_slice(step: TfliteStep) -> Result:
    """Slice as Python does; masks say which ends are open and which axes are dropped or new."""
    dims = step.shape(0)
    ranges, dropped, added = _bounds(step, dims)
    if not dropped and not added:
        return _sliced(step, ranges)
    x = step.emit("cut", _cut(step, step.plain(0), dict(enumerate(ranges))))
    left = [len(r) for axis, r in enumerate(ranges) if axis not in dropped]
    for place in added:
        left.insert(place, 1)
    return relax.op.reshape(x, left)


def _bounds(step: TfliteStep, dims: Sequence[int]) -> tuple[list[range], frozenset[int], list[int]]:
    """Return what is kept of each axis, which axes are dropped, where the result has new ones."""
    columns = [step.integers(i, what) for i, what in ((1, "begin"), (2, "end"), (3, "step"))]
    entries = list(zip(*columns, strict=True))
    masked = {
        name: {i for i in range(len(entries)) if step.integer(f"{name}_mask") >> i & 1}
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    taken = len(entries) - len((masked["new_axis"] - masked["ellipsis"]) | masked["ellipsis"])
    if len(masked["ellipsis"]) > 1 or taken > len(dims):
        raise ValueError(f"its begin, end and step do not fit {list(dims)}")
    ranges: list[range] = []
    dropped, added, place = set[int](), list[int](), 0
    for i, (begin, end, stride) in enumerate(entries):
        if i in masked["ellipsis"]:
            whole = dims[len(ranges) : len(ranges) + len(dims) - taken]
            ranges += [range(size) for size in whole]
            place += len(whole)
        elif i in masked["new_axis"]:
            added.append(place)
            place += 1
        else:
            size = dims[len(ranges)]
            if i in masked["shrink_axis"]:
                dropped.add(len(ranges))
                ranges.append(range(begin % size, begin % size + 1))
                continue
            first = None if i in masked["begin"] else begin
            end += begin if step.options["offset"] else 0
            last = None if i in masked["end"] else end
            ranges.append(range(*slice(first, last, stride).indices(size)))
            place += 1
    ranges += [range(size) for size in dims[len(ranges) :]]
    return ranges, frozenset(dropped), added


def _sliced(step: TfliteStep, ranges: Sequence[range]) -> Result:
    (x,), wrap = step.together(0)
    by_axis = {step.axis(axis, len(ranges)): positions for axis, positions in enumerate(ranges)}
    return wrap(_cut(step, x, by_axis))


def _cut(step: TfliteStep, x: relax.Expr, ranges: dict[int, range]) -> relax.Expr:
    """Return what is kept of each axis; one that is read backwards is turned around first.

    Nothing may be left, as in front of the first item of a list that a loop fills.
    """
    dims = shape(x)
    kept: dict[int, range] = {}
    for axis, positions in ranges.items():
        size, forward = dims[axis], positions
        if positions and (min(positions) < 0 or max(positions) >= size):
            raise ValueError(f"{positions} of axis {axis} of {list(dims)}")
        if not positions:
            forward = range(0)
        elif positions.step < 0:
            x = step.emit("reversed", relax.op.flip(x, axis))
            forward = range(size - 1 - positions[0], size - positions[-1], -positions.step)
        if forward != range(size):
            kept[axis] = forward
    if not kept:
        return x
    return relax.op.strided_slice(
        x,
        list(kept),
        [r.start for r in kept.values()],
        [r[-1] + 1 if r else 0 for r in kept.values()],
        [r.step for r in kept.values()],
    )


def _split(step: TfliteStep) -> Sequence[Result]:
    """Split an axis into equal parts; the axis is the first operand."""
    (axis,) = step.integers(0, "axis")
    dims, count = step.shape(1), len(step.outputs)
    along = axis % len(dims)
    if dims[along] % count:
        raise ValueError(f"axis {axis} of {list(dims)} cannot be split into {count}")
    return _parts(step, 1, axis, [dims[along] // count] * count)


def _split_at(step: TfliteStep) -> Sequence[Result]:
    """Split an axis into parts of given sizes, of which one may be open."""
    lengths, (axis,) = list(step.integers(1, "sizes")), step.integers(2, "axis")
    dims = step.shape(0)
    if lengths.count(-1) == 1:
        lengths[lengths.index(-1)] = dims[axis % len(dims)] - sum(lengths) - 1
    return _parts(step, 0, axis, lengths)


def _parts(step: TfliteStep, index: int, axis: int, lengths: Sequence[int]) -> Sequence[Result]:
    (x,), wrap = step.together(index)
    along = step.axis(axis, len(shape(x)))
    ends = pairwise(accumulate(lengths, initial=0))
    return [wrap(_cut(step, x, {along: range(begin, end)})) for begin, end in ends]


SLICES: dict[str, Converter] = {
    "SLICE": _slice,
    "SPLIT": _split,
    "SPLIT_V": _split_at,
    "STRIDED_SLICE": _strided_slice,
}
