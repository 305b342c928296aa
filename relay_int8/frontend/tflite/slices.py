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
    dims = _dims(step)
    if not len(begins) == len(lengths) == len(dims):
        raise ValueError(f"begin {list(begins)} and size {list(lengths)} of {list(dims)}")
    ranges = [
        range(begin, dim if size == -1 else begin + size)
        for begin, size, dim in zip(begins, lengths, dims, strict=True)
    ]
    return _sliced(step, ranges)


def _strided_slice(step: TfliteStep) -> Result:
    """Slice as Python does; masks say which ends are open and which axes are dropped."""
    if step.integer("ellipsis_mask") or step.integer("new_axis_mask") or step.options["offset"]:
        raise NotImplementedError("slices with new axes, an ellipsis or sizes for ends")
    dims = _dims(step)
    begins, ends, steps = (
        step.integers(operand, what) for operand, what in ((1, "begin"), (2, "end"), (3, "step"))
    )
    if not len(begins) == len(ends) == len(steps) == len(dims):
        raise ValueError(f"its begin, end and step do not fit {list(dims)}")
    dropped = [axis for axis in range(len(dims)) if step.integer("shrink_axis_mask") >> axis & 1]
    ranges = []
    for axis, (begin, end, stride, dim) in enumerate(zip(begins, ends, steps, dims, strict=True)):
        if stride < 1:
            raise NotImplementedError(f"a step of {stride}")
        first = None if step.integer("begin_mask") >> axis & 1 else begin
        last = None if step.integer("end_mask") >> axis & 1 else end
        if axis in dropped:
            first, last = begin % dim, begin % dim + 1
        ranges.append(range(*slice(first, last, stride).indices(dim)))
    if not dropped:
        return _sliced(step, ranges)
    x = step.emit("cut", _cut(step.plain(0), dict(enumerate(ranges))))
    return relax.op.squeeze(x, dropped)


def _dims(step: TfliteStep) -> tuple[int, ...]:
    """Return the shape of the first operand in the order of the file."""
    if not step.is_image:
        return shape(step.plain(0))
    n, c, h, w = shape(step.image(0))
    return n, h, w, c


def _sliced(step: TfliteStep, ranges: Sequence[range]) -> Result:
    (x,), wrap = step.together(0)
    by_axis = {step.axis(axis, len(ranges)): positions for axis, positions in enumerate(ranges)}
    return wrap(_cut(x, by_axis))


def _cut(x: relax.Expr, ranges: dict[int, range]) -> relax.Expr:
    dims = shape(x)
    for axis, positions in ranges.items():
        if not positions or positions[0] < 0 or positions[-1] >= dims[axis]:
            raise ValueError(f"{positions} of axis {axis} of {list(dims)}")
    kept = {axis: r for axis, r in ranges.items() if r != range(dims[axis])}
    if not kept:
        return x
    return relax.op.strided_slice(
        x,
        list(kept),
        [r.start for r in kept.values()],
        [r[-1] + 1 for r in kept.values()],
        [r.step for r in kept.values()],
    )


def _split(step: TfliteStep) -> Sequence[Result]:
    """Split an axis into equal parts; the axis is the first operand."""
    (axis,) = step.integers(0, "axis")
    dims, count = _dims_of(step, 1), len(step.outputs)
    along = axis % len(dims)
    if dims[along] % count:
        raise ValueError(f"axis {axis} of {list(dims)} cannot be split into {count}")
    return _parts(step, 1, axis, [dims[along] // count] * count)


def _split_at(step: TfliteStep) -> Sequence[Result]:
    """Split an axis into parts of given sizes, of which one may be open."""
    lengths, (axis,) = list(step.integers(1, "sizes")), step.integers(2, "axis")
    dims = _dims_of(step, 0)
    if lengths.count(-1) == 1:
        lengths[lengths.index(-1)] = dims[axis % len(dims)] - sum(lengths) - 1
    return _parts(step, 0, axis, lengths)


def _dims_of(step: TfliteStep, index: int) -> tuple[int, ...]:
    (x,), _ = step.together(index)
    dims = shape(x)
    return (dims[0], *dims[2:], dims[1]) if step.is_image else dims


def _parts(step: TfliteStep, index: int, axis: int, lengths: Sequence[int]) -> Sequence[Result]:
    (x,), wrap = step.together(index)
    along = step.axis(axis, len(shape(x)))
    ends = pairwise(accumulate(lengths, initial=0))
    return [wrap(_cut(x, {along: range(begin, end)})) for begin, end in ends]


SLICES: dict[str, Converter] = {
    "SLICE": _slice,
    "SPLIT": _split,
    "SPLIT_V": _split_at,
    "STRIDED_SLICE": _strided_slice,
}
