"""MXNet operators that move elements without computing: shapes, slices, concatenation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from tvm import relax

from relay_int8.frontend.mxnet_layers import axis_of
from relay_int8.frontend.mxnet_step import Converter, Step
from relay_int8.graph import shape

COPY, INFER, REST, MERGE, SPLIT = 0, -1, -2, -3, -4
"""What numbers below one mean in ``Reshape``: copy an extent, infer one, copy all that are left,
merge two, split one into the next two numbers."""


def _reshape(step: Step) -> relax.Expr:
    """Reshape by a list with MXNet's special numbers, from the right if ``reverse``."""
    attrs, dims = step.attributes, shape(step.x)
    target = [value if value is not None else COPY for value in attrs.integers("shape")]
    if not target:
        target = [value or INFER for value in attrs.integers("target_shape")]
        if attrs.flag("keep_highest", False) and target:
            target[0] = COPY
    if not target:
        raise ValueError("it has no shape")
    if attrs.flag("reverse", False):
        return relax.op.reshape(step.x, reshaped(dims[::-1], target[::-1])[::-1])
    return relax.op.reshape(step.x, reshaped(dims, target))


def reshaped(dims: Sequence[int], target: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that MXNet's special numbers ask for.

    Raises
    ------
    ValueError
        If they do not fit ``dims``.
    """
    fault = ValueError(f"a reshape of {list(dims)} to {list(target)}")
    left, numbers, found = list(dims), list(target), list[int]()
    while numbers:
        number = numbers.pop(0)
        taken = {MERGE: 2, REST: len(left)}.get(number, 1)
        if number < SPLIT or (number < 1 and number != INFER and taken > len(left)):
            raise fault
        source, left = left[:taken], left[taken:]
        if number == SPLIT:
            found += _split(source[0], numbers[:2], fault)
            del numbers[:2]
        else:
            found += {COPY: source, REST: source, MERGE: [math.prod(source)]}.get(number, [number])
    if found.count(INFER) == 1:
        known = math.prod(extent for extent in found if extent != INFER)
        found[found.index(INFER)] = math.prod(dims) // known
    if INFER in found or math.prod(found) != math.prod(dims):
        raise fault
    return tuple(found)


def _split(extent: int, parts: Sequence[int], fault: ValueError) -> list[int]:
    """Return the two factors of an extent, of which one may be left open."""
    if len(parts) != 2 or max(parts) < 1 or min(parts) == COPY or min(parts) < INFER:
        raise fault
    a, b = parts
    factors = [extent // b if a == INFER else a, extent // a if b == INFER else b]
    if math.prod(factors) != extent:
        raise fault
    return factors


def _flatten(step: Step) -> relax.Expr:
    batch, *rest = shape(step.x)
    return relax.op.reshape(step.x, (batch, math.prod(rest)))


def _reshape_like(step: Step) -> relax.Expr:
    x, like = step.operands("lhs", "rhs")
    if any(name in step.attributes for name in ("lhs_begin", "rhs_begin")):
        raise NotImplementedError("reshape_like of a part of the axes")
    return relax.op.reshape(x, shape(like))


def _transpose(step: Step) -> relax.Expr:
    rank = len(shape(step.x))
    axes = [axis_of(axis or 0, rank) for axis in step.attributes.integers("axes")]
    if axes and sorted(axes) != list(range(rank)):
        raise ValueError(f"its axes are {axes}")
    return relax.op.permute_dims(step.x, axes or list(range(rank))[::-1])


def _swap_axes(step: Step) -> relax.Expr:
    rank = len(shape(step.x))
    a, b = (axis_of(step.attributes.integer(name, 0), rank) for name in ("dim1", "dim2"))
    order = list(range(rank))
    order[a], order[b] = b, a
    return relax.op.permute_dims(step.x, order)


def _expand_dims(step: Step) -> relax.Expr:
    axis = axis_of(step.attributes.integer("axis"), len(shape(step.x)) + 1)
    return relax.op.expand_dims(step.x, axis)


def _squeeze(step: Step) -> relax.Expr:
    dims = shape(step.x)
    axes = [axis_of(axis or 0, len(dims)) for axis in step.attributes.integers("axis")]
    if any(dims[axis] != 1 for axis in axes):
        raise ValueError(f"its axes {axes} are not all of extent 1 in {list(dims)}")
    return relax.op.squeeze(step.x, axes or None)


def _slice(step: Step) -> relax.Expr:
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


def _slice_axis(step: Step) -> relax.Expr:
    attrs, dims = step.attributes, shape(step.x)
    axis = axis_of(attrs.integer("axis"), len(dims))
    end = attrs.integer("end") if "end" in attrs else None
    return _sliced(step, {axis: _extent(slice(attrs.integer("begin"), end), dims[axis])})


def _slice_like(step: Step) -> relax.Expr:
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


def _sliced(step: Step, ranges: dict[int, range]) -> relax.Expr:
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


def _split_channels(step: Step) -> Sequence[relax.Expr]:
    """Split an axis into equal parts, and drop the axis if ``squeeze_axis``."""
    attrs, dims = step.attributes, shape(step.x)
    axis = axis_of(attrs.integer("axis", 1), len(dims))
    count = attrs.integer("num_outputs", least=1)
    if dims[axis] % count:
        raise ValueError(f"axis {axis} of {list(dims)} cannot be split into {count}")
    width = dims[axis] // count
    return _parts(step, axis, range(0, dims[axis] + 1, width))


def _split_at(step: Step) -> Sequence[relax.Expr]:
    """Split an axis at given places, or into equal parts."""
    attrs, dims = step.attributes, shape(step.x)
    axis = axis_of(attrs.integer("axis", 1), len(dims))
    sections = attrs.integer("sections", 0, least=0)
    if sections:
        if dims[axis] % sections:
            raise ValueError(f"axis {axis} of {list(dims)} cannot be split into {sections}")
        return _parts(step, axis, range(0, dims[axis] + 1, dims[axis] // sections))
    places = sorted({0, *(place or 0 for place in attrs.integers("indices"))})
    return _parts(step, axis, [*places, dims[axis]])


def _parts(step: Step, axis: int, places: Sequence[int]) -> Sequence[relax.Expr]:
    squeeze = step.attributes.flag("squeeze_axis", False)
    found = []
    for begin, end in pairwise(places):
        part = _sliced(step, {axis: range(begin, end)})
        if squeeze:
            part = relax.op.squeeze(step.emit("part", part), [axis])
        found.append(part)
    return found


def _concat(step: Step) -> relax.Expr:
    axis = axis_of(step.attributes.integer("dim", 1), len(shape(step.x)))
    return relax.op.concat(list(step.inputs), axis=axis)


def _stack(step: Step) -> relax.Expr:
    axis = axis_of(step.attributes.integer("axis", 0), len(shape(step.x)) + 1)
    return relax.op.stack(list(step.inputs), axis=axis)


def _pad(step: Step) -> relax.Expr:
    attrs, rank = step.attributes, len(shape(step.x))
    modes = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}
    mode = attrs.text("mode")
    if mode not in modes:
        raise ValueError(f"its mode is {mode!r}, not one of {', '.join(modes)}")
    widths = attrs.sizes("pad_width", (0,) * (2 * rank), least=0)
    if mode == "reflect" and any(
        width >= extent
        for pair, extent in zip(zip(*[iter(widths)] * 2, strict=True), shape(step.x), strict=True)
        for width in pair
    ):
        raise ValueError(f"its pad_width {widths} reaches over {list(shape(step.x))}")
    return relax.op.nn.pad(step.x, list(widths), modes[mode], attrs.real("constant_value", 0.0))


def _broadcast_to(step: Step) -> relax.Expr:
    dims = shape(step.x)
    target = step.attributes.sizes("shape", (0,) * len(dims), least=0)
    return relax.op.broadcast_to(
        step.x, [wanted or extent for wanted, extent in zip(target, dims, strict=True)]
    )


def _broadcast_axis(step: Step) -> relax.Expr:
    dims, attrs = list(shape(step.x)), step.attributes
    axes, sizes = attrs.integers("axis"), attrs.integers("size")
    for axis, size in zip(axes, sizes, strict=True):
        dims[axis_of(axis or 0, len(dims))] = size or 1
    return relax.op.broadcast_to(step.x, dims)


def _broadcast_like(step: Step) -> relax.Expr:
    x, like = step.operands("lhs", "rhs")
    if step.attributes.integers("lhs_axes") or step.attributes.integers("rhs_axes"):
        raise NotImplementedError("broadcast_like of some axes")
    return relax.op.broadcast_to(x, shape(like))


def _tile(step: Step) -> relax.Expr:
    reps = [value or 1 for value in step.attributes.integers("reps")]
    return relax.op.tile(step.x, reps)


def _depth_to_space(step: Step) -> relax.Expr:
    """Move blocks of channels into space, the block's position slowest."""
    block = step.attributes.integer("block_size", least=1)
    n, c, h, w = shape(step.x)
    if c % block**2:
        raise ValueError(f"{c} channels are no blocks of {block} x {block}")
    parts = (n, block, block, c // block**2, h, w)
    x = step.emit("blocks", relax.op.reshape(step.x, parts))
    x = step.emit("moved", relax.op.permute_dims(x, [0, 3, 4, 1, 5, 2]))
    return relax.op.reshape(x, (n, c // block**2, h * block, w * block))


def _space_to_depth(step: Step) -> relax.Expr:
    """Move blocks of space into channels, the block's position slowest."""
    block = step.attributes.integer("block_size", least=1)
    n, c, h, w = shape(step.x)
    if h % block or w % block:
        raise ValueError(f"{h} x {w} is no multiple of {block} x {block}")
    x = relax.op.reshape(step.x, (n, c, h // block, block, w // block, block))
    x = relax.op.permute_dims(step.emit("blocks", x), [0, 3, 5, 1, 2, 4])
    return relax.op.reshape(step.emit("moved", x), (n, c * block**2, h // block, w // block))


SHAPES: dict[str, Converter] = {
    "BroadcastAxis": _broadcast_axis,
    "Concat": _concat,
    "Flatten": _flatten,
    "Pad": _pad,
    "Reshape": _reshape,
    "SliceChannel": _split_channels,
    "SwapAxis": _swap_axes,
    "_split_v2": _split_at,
    "broadcast_axes": _broadcast_axis,
    "broadcast_axis": _broadcast_axis,
    "broadcast_like": _broadcast_like,
    "broadcast_to": _broadcast_to,
    "concat": _concat,
    "crop": _slice,
    "depth_to_space": _depth_to_space,
    "expand_dims": _expand_dims,
    "flatten": _flatten,
    "pad": _pad,
    "reshape": _reshape,
    "reshape_like": _reshape_like,
    "slice": _slice,
    "slice_axis": _slice_axis,
    "slice_like": _slice_like,
    "space_to_depth": _space_to_depth,
    "split": _split_channels,
    "squeeze": _squeeze,
    "stack": _stack,
    "swapaxes": _swap_axes,
    "tile": _tile,
    "transpose": _transpose,
}
