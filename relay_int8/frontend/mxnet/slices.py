"""MXNet operators that cut tensors: slices and splits."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tvm import relax

from relay_int8.frontend.mxnet.layers import axis_of
from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.graph.dataflow import shape


def _slice(step: MxnetStep) -> relax.Expr:
    """Slice the leading axes; None leaves an end, a step of -1 turns an axis around."""
    attrs, dims = step.attributes, shape(step.x)
    begin, end = attrs.integers("begin"), attrs.integers("end")
    steps = attrs.integers("step") or (None,) * len(begin)
    if not len(begin) == len(end) == len(steps) <= len(dims):
        raise ValueError(f"its begin {begin}, end {end} and step {steps} do not fit {list(dims)}")
    ranges = [
        _extent(slice(*bounds), size)
        for *bounds, size in zip(begin, end, steps, dims, strict=False)
    ]
    return _sliced(step, dict(enumerate(ranges)))


def _slice_axis(step: MxnetStep) -> relax.Expr:
    attrs, dims = step.attributes, shape(step.x)
    axis = axis_of(attrs.integer("axis"), len(dims))
    end = attrs.integer("end") if "end" in attrs else None
    return _sliced(step, {axis: _extent(slice(attrs.integer("begin"), end), dims[axis])})


def _slice_like(step: MxnetStep) -> relax.Expr:
    x, like = step.operands("data", "shape_like")
    given = step.attributes.integers("axes")
    rank = min(len(shape(x)), len(shape(like)))
    axes = [axis_of(axis or 0, rank) for axis in given] or list(range(rank))
    return _sliced(
        step, {axis: _extent(slice(0, shape(like)[axis]), shape(x)[axis]) for axis in axes}
    )


def _extent(bounds: slice, size: int) -> range:
    """Return the positions of a slice."""
    if bounds.step == 0:
        raise ValueError("its step is 0")
    return range(*bounds.indices(size))


def _sliced(step: MxnetStep, ranges: dict[int, range]) -> relax.Expr:
    empty = [axis for axis, positions in ranges.items() if not positions]
    if empty:
        raise ValueError(f"nothing is left of axis {empty[0]} of {list(shape(step.x))}")
    x = step.x
    for axis, positions in ranges.items():
        if positions.step < 0:
            x = step.emit("flip", relax.op.flip(x, axis))
    sizes = shape(step.x)
    forward = {
        axis: range(sizes[axis] - 1 - r.start, sizes[axis] - r[-1], -r.step) if r.step < 0 else r
        for axis, r in ranges.items()
    }
    return relax.op.strided_slice(
        x,
        list(forward),
        [r.start for r in forward.values()],
        [r[-1] + 1 for r in forward.values()],
        [r.step for r in forward.values()],
    )


def _split_channels(step: MxnetStep) -> Sequence[relax.Expr]:
    """Split an axis into equal parts, and drop the axis if ``squeeze_axis``."""
    attrs, dims = step.attributes, shape(step.x)
    axis = axis_of(attrs.integer("axis", 1), len(dims))
    count = attrs.integer("num_outputs", least=1)
    if dims[axis] % count:
        raise ValueError(f"axis {axis} of {list(dims)} cannot be split into {count}")
    width = dims[axis] // count
    return _parts(step, axis, range(0, dims[axis] + 1, width))


def _split_at(step: MxnetStep) -> Sequence[relax.Expr]:
    """Split an axis at given indices, or into equal parts."""
    attrs, dims = step.attributes, shape(step.x)
    axis = axis_of(attrs.integer("axis", 1), len(dims))
    sections = attrs.integer("sections", 0, least=0)
    if sections:
        if dims[axis] % sections:
            raise ValueError(f"axis {axis} of {list(dims)} cannot be split into {sections}")
        return _parts(step, axis, range(0, dims[axis] + 1, dims[axis] // sections))
    boundaries = sorted({0, *(boundary or 0 for boundary in attrs.integers("indices"))})
    return _parts(step, axis, [*boundaries, dims[axis]])


def _parts(step: MxnetStep, axis: int, boundaries: Sequence[int]) -> Sequence[relax.Expr]:
    squeeze = step.attributes.flag("squeeze_axis", False)
    parts = []
    for begin, end in pairwise(boundaries):
        part = _sliced(step, {axis: range(begin, end)})
        if squeeze:
            part = relax.op.squeeze(step.emit("part", part), [axis])
        parts.append(part)
    return parts


SLICES: dict[str, Converter] = {
    "SliceChannel": _split_channels,
    "_split_v2": _split_at,
    "crop": _slice,
    "slice": _slice,
    "slice_axis": _slice_axis,
    "slice_like": _slice_like,
    "split": _split_channels,
}
