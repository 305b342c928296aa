"""TFLite operators that move elements without computing: reshapes, joins, pads, cuts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

from tvm import relax

from relay_int8.frontend.tflite_step import Converter, Result, Step
from relay_int8.graph import constant, shape


def _reshape(step: Step) -> Result:
    """Reshape to a constant, the option, or what the file says of the result.

    Where that was written for another batch, the leading extent follows.
    """
    x = step.plain(0)
    wanted: Sequence[int] = step.options["new_shape"] or step.outputs[0].shape  # type: ignore[assignment]
    if step.has(1) and step.tensor(1).values is not None:
        wanted = step.integers(1, "shape")
    dims, size = list(wanted), math.prod(shape(x))
    if dims.count(-1) == 1:
        rest = -math.prod(dims)
        dims[dims.index(-1)] = size // rest if rest > 0 else 0
    if dims and math.prod(dims) != size:
        rest = math.prod(dims[1:])
        dims[0] = size // rest if rest > 0 else 0
    if math.prod(dims) != size or min(dims, default=1) < 1:
        raise ValueError(f"{list(shape(x))} cannot become {list(wanted)}")
    return relax.op.reshape(x, dims)


def _squeeze(step: Step) -> Result:
    x = step.plain(0)
    axes: Sequence[int] = step.options["axes"]  # type: ignore[assignment]
    return relax.op.squeeze(x, list(axes) or None)


def _expand_dims(step: Step) -> Result:
    (axis,) = step.integers(1, "axis")
    return relax.op.expand_dims(step.plain(0), axis)


def _transpose(step: Step) -> Result:
    order, rank = step.integers(1, "order"), len(shape(step.plain(0)))
    if sorted(order) != list(range(rank)):
        raise ValueError(f"its order is {list(order)} for {rank} axes")
    return relax.op.permute_dims(step.plain(0), list(order))


def _concatenation(step: Step) -> Result:
    parts, wrap = step.together(*range(len(step.inputs)))
    axis = step.axis(step.integer("axis"), len(shape(parts[0])))
    return wrap(step.activated(relax.op.concat(parts, axis)))


def _pack(step: Step) -> Result:
    parts = [step.plain(index) for index in range(len(step.inputs))]
    dims, axis = list(shape(parts[0])), step.integer("axis")
    if not -len(dims) <= axis + 1 <= len(dims) + 1:
        raise ValueError(f"axis {axis} of parts {dims}")
    axis %= len(dims) + 1
    dims.insert(axis, 1)
    rows = [step.emit(f"part{i}", relax.op.reshape(x, dims)) for i, x in enumerate(parts)]
    return relax.op.concat(rows, axis)


def _unpack(step: Step) -> Sequence[Result]:
    x = step.plain(0)
    dims, axis = shape(x), step.integer("axis")
    if not -len(dims) <= axis < len(dims):
        raise ValueError(f"axis {axis} of {list(dims)}")
    axis %= len(dims)
    left = [extent for i, extent in enumerate(dims) if i != axis]
    if dims[axis] != len(step.outputs):
        raise ValueError(f"it has {len(step.outputs)} results of {list(dims)}")
    cuts = [relax.op.strided_slice(x, [axis], [i], [i + 1]) for i in range(dims[axis])]
    return [relax.op.reshape(step.emit(f"part{i}", cut), left) for i, cut in enumerate(cuts)]


def _pad(step: Step) -> Result:
    """Pad with zero, a constant, or the image mirrored."""
    (x,), wrap = step.together(0)
    rank = len(shape(x))
    widths = step.integers(1, "widths")
    if len(widths) != 2 * rank or min(widths) < 0:
        raise ValueError(f"its widths are {list(widths)} for {rank} axes")
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    places = {step.axis(axis, rank): pair for axis, pair in enumerate(pairs)}
    flat = [width for axis in range(rank) for width in places[axis]]
    if step.operator.kind == "MIRROR_PAD":
        if step.integer("mode", 0):
            raise NotImplementedError("a mirror pad that repeats the edge (SYMMETRIC)")
        dims = shape(x)
        if any(max(places[axis]) >= dims[axis] for axis in range(rank)):
            raise ValueError(f"its widths {list(widths)} reach over {list(dims)}")
        return wrap(relax.op.nn.pad(x, flat, "reflect"))
    return wrap(relax.op.nn.pad(x, flat, "constant", _fill(step)))


def _fill(step: Step) -> float:
    """Return what PADV2 pads with."""
    if not step.has(2):
        return 0.0
    tensor = step.tensor(2)
    if tensor.values is None or tensor.values.size != 1:
        raise NotImplementedError("its value is computed, not constant")
    value = float(tensor.values.reshape(()))
    if tensor.quantization is None:
        return value
    return (value - float(tensor.quantization.zero[0])) * float(tensor.quantization.scale[0])


def _slice(step: Step) -> Result:
    """Slice by begin and size of every axis; a size of -1 is all that is left."""
    begins, lengths = step.integers(1, "begin"), step.integers(2, "size")
    dims = _dims(step)
    if not len(begins) == len(lengths) == len(dims):
        raise ValueError(f"begin {list(begins)} and size {list(lengths)} of {list(dims)}")
    ranges = [
        range(begin, dim if size == -1 else begin + size)
        for begin, size, dim in zip(begins, lengths, dims, strict=True)
    ]
    return _sliced(step, ranges)


def _strided_slice(step: Step) -> Result:
    """Slice as Python does; masks say which ends are open and which axes are dropped."""
    if step.integer("ellipsis_mask") or step.integer("new_axis_mask") or step.options["offset"]:
        raise NotImplementedError("slices with new axes, an ellipsis or sizes for ends")
    dims = _dims(step)
    begins, ends, steps = (
        step.integers(place, what) for place, what in ((1, "begin"), (2, "end"), (3, "step"))
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


def _dims(step: Step) -> tuple[int, ...]:
    """Return the shape of the first operand in the order of the file."""
    if not step.is_image:
        return shape(step.plain(0))
    n, c, h, w = shape(step.image(0))
    return n, h, w, c


def _sliced(step: Step, ranges: Sequence[range]) -> Result:
    (x,), wrap = step.together(0)
    places = {step.axis(axis, len(ranges)): found for axis, found in enumerate(ranges)}
    return wrap(_cut(x, places))


def _cut(x: relax.Expr, ranges: dict[int, range]) -> relax.Expr:
    dims = shape(x)
    for axis, found in ranges.items():
        if not found or found[0] < 0 or found[-1] >= dims[axis]:
            raise ValueError(f"{found} of axis {axis} of {list(dims)}")
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


def _split(step: Step) -> Sequence[Result]:
    """Split an axis into equal parts; the axis is the first operand."""
    (axis,) = step.integers(0, "axis")
    dims, count = _dims_of(step, 1), len(step.outputs)
    place = axis % len(dims)
    if dims[place] % count:
        raise ValueError(f"axis {axis} of {list(dims)} cannot be split into {count}")
    return _parts(step, 1, axis, [dims[place] // count] * count)


def _split_at(step: Step) -> Sequence[Result]:
    """Split an axis into parts of given sizes, of which one may be open."""
    lengths, (axis,) = list(step.integers(1, "sizes")), step.integers(2, "axis")
    dims = _dims_of(step, 0)
    if lengths.count(-1) == 1:
        lengths[lengths.index(-1)] = dims[axis % len(dims)] - sum(lengths) - 1
    return _parts(step, 0, axis, lengths)


def _dims_of(step: Step, index: int) -> tuple[int, ...]:
    (x,), _ = step.together(index)
    dims = shape(x)
    return (dims[0], *dims[2:], dims[1]) if step.is_image else dims


def _parts(step: Step, index: int, axis: int, lengths: Sequence[int]) -> Sequence[Result]:
    (x,), wrap = step.together(index)
    place = step.axis(axis, len(shape(x)))
    ends = pairwise(accumulate(lengths, initial=0))
    return [wrap(_cut(x, {place: range(begin, end)})) for begin, end in ends]


def _cast(step: Step) -> Result:
    (x,), wrap = step.together(0)
    kind = step.outputs[0].dtype
    if constant(x) is None and kind not in ("float32", "int32", "int64"):
        raise NotImplementedError(f"a cast to {kind}")
    return wrap(relax.op.astype(x, kind))


MOVES: dict[str, Converter] = {
    "CAST": _cast,
    "CONCATENATION": _concatenation,
    "EXPAND_DIMS": _expand_dims,
    "MIRROR_PAD": _pad,
    "PACK": _pack,
    "PAD": _pad,
    "PADV2": _pad,
    "RESHAPE": _reshape,
    "SLICE": _slice,
    "SPLIT": _split,
    "SPLIT_V": _split_at,
    "SQUEEZE": _squeeze,
    "STRIDED_SLICE": _strided_slice,
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
}
