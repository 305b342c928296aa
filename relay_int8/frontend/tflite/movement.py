"""TFLite operators that move elements without computing: reshapes, joins, pads."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tvm import relax

from relay_int8.frontend.tflite.step import Converter, TfliteStep
from relay_int8.frontend.tflite.tensors import Image, Result
from relay_int8.graph.dataflow import shape


def _reshape(step: TfliteStep) -> Result:
    """Reshape to a constant, the option, or what the file says of the result."""
    x = step.plain(0)
    wanted: Sequence[int] = step.options["new_shape"] or step.outputs[0].shape  # type: ignore[assignment]
    if step.has(1) and step.known(1) is not None and not (step.scaled and 1 not in step.held):
        wanted = step.integers(1, "shape")
    elif step.scaled or len(step.outputs[0].open_axes) == 1:
        wanted = [
            -1 if axis in step.outputs[0].open_axes else extent
            for axis, extent in enumerate(step.outputs[0].shape)
        ]
    dims, size = list(wanted), math.prod(shape(x))
    if dims.count(-1) == 1:
        rest = -math.prod(dims)
        dims[dims.index(-1)] = size // rest if rest > 0 else 0
    if math.prod(dims) != size or min(dims, default=1) < 1:
        raise ValueError(f"{list(shape(x))} cannot become {list(wanted)}")
    return relax.op.reshape(x, dims)


def _squeeze(step: TfliteStep) -> Result:
    x = step.plain(0)
    axes: Sequence[int] = step.options["axes"]  # type: ignore[assignment]
    return relax.op.squeeze(x, list(axes) or None)


def _expand_dims(step: TfliteStep) -> Result:
    (axis,) = step.integers(1, "axis")
    return relax.op.expand_dims(step.plain(0), axis)


def _transpose(step: TfliteStep) -> Result:
    order, rank = step.integers(1, "order"), len(shape(step.plain(0)))
    if sorted(order) != list(range(rank)):
        raise ValueError(f"its order is {list(order)} for {rank} axes")
    return relax.op.permute_dims(step.plain(0), list(order))


def _concatenation(step: TfliteStep) -> Result:
    parts, wrap = step.together(*range(len(step.inputs)))
    axis = step.axis(step.integer("axis"), len(shape(parts[0])))
    filled = [part for part in parts if shape(part)[axis]] or parts
    return wrap(step.activated(relax.op.concat(filled, axis)))


def _pack(step: TfliteStep) -> Result:
    parts = [step.plain(index) for index in range(len(step.inputs))]
    dims, axis = list(shape(parts[0])), step.integer("axis")
    if not -len(dims) <= axis + 1 <= len(dims) + 1:
        raise ValueError(f"axis {axis} of parts {dims}")
    axis %= len(dims) + 1
    dims.insert(axis, 1)
    rows = [step.emit(f"part{i}", relax.op.reshape(x, dims)) for i, x in enumerate(parts)]
    return relax.op.concat(rows, axis)


def _unpack(step: TfliteStep) -> Sequence[Result]:
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


def _pad(step: TfliteStep) -> Result:
    """Pad with zero, a constant, or the image mirrored."""
    (x,), wrap = step.together(0)
    rank = len(shape(x))
    widths = step.integers(1, "widths")
    if len(widths) != 2 * rank or min(widths) < 0:
        raise ValueError(f"its widths are {list(widths)} for {rank} axes")
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    pads_by_axis = {step.axis(axis, rank): pair for axis, pair in enumerate(pairs)}
    flat = [width for axis in range(rank) for width in pads_by_axis[axis]]
    if step.operator.kind == "MIRROR_PAD":
        repeats_edge = bool(step.integer("mode", 0))  # SYMMETRIC
        if any(max(pads_by_axis[axis]) >= shape(x)[axis] + repeats_edge for axis in range(rank)):
            raise ValueError(f"its widths {list(widths)} reach over {list(shape(x))}")
        if repeats_edge:
            return wrap(_with_repeated_edges(step, x, pads_by_axis))
        return wrap(relax.op.nn.pad(x, flat, "reflect"))
    return wrap(relax.op.nn.pad(x, flat, "constant", _fill(step)))


def _with_repeated_edges(
    step: TfliteStep, x: relax.Expr, pads_by_axis: Mapping[int, tuple[int, int]]
) -> relax.Expr:
    """Pad with the mirrored tensor, its outermost elements twice."""
    for axis, (before, after) in pads_by_axis.items():
        size = shape(x)[axis]
        parts = [
            step.emit(name, relax.op.flip(step.emit("edge", edge), axis))
            for name, width, edge in (
                ("before", before, relax.op.strided_slice(x, [axis], [0], [before])),
                ("after", after, relax.op.strided_slice(x, [axis], [size - after], [size])),
            )
            if width
        ]
        if parts:
            joined = [*parts[: bool(before)], x, *parts[bool(before) :]]
            x = step.emit("mirrored", relax.op.concat(joined, axis))
    return x


def _fill(step: TfliteStep) -> float:
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


def _cast(step: TfliteStep) -> Result:
    """Convert numbers; of a quantized tensor the integers themselves."""
    kind, held = step.outputs[0].dtype, step.held.get(0)
    if kind not in ("float32", "int32", "int64"):
        raise NotImplementedError(f"a cast to {kind}")
    if held is not None and isinstance(held.integers, Image):
        return Image(relax.op.astype(held.integers.value, kind))
    if held is not None and held.integers is not None:
        return relax.op.astype(held.integers, kind)
    (x,), wrap = step.together(0)
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
    "SQUEEZE": _squeeze,
    "TRANSPOSE": _transpose,
    "UNPACK": _unpack,
}
