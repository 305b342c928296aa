"""PyTorch operators that move elements and compute nothing."""

from __future__ import annotations

import math

import numpy as np
from tvm import relax

from relay_int8.frontend.cropping import cropped
from relay_int8.frontend.torch.creation import filled
from relay_int8.frontend.torch.step import Converter, Result, TorchStep, axis_of
from relay_int8.graph.dataflow import constant, dtype, shape

MODES = ("circular", "constant", "reflect", "replicate")
"""What a pad writes, in PyTorch's words and in Relax's."""

EXCHANGED = (("dim0", "dim1"), ("axis0", "axis1"))
"""What the two axes of a transpose are called, by transpose and by swapaxes."""


def reshaped(x: relax.Expr, target: list[int]) -> relax.Expr:
    """Reshape; one -1 is the extent that the others leave."""
    total = math.prod(shape(x))
    known = math.prod(size for size in target if size != -1)
    if target.count(-1) > 1 or any(size < -1 for size in target):
        raise ValueError(f"it reshapes to {target}")
    if -1 in target and known:
        target = [total // known if size == -1 else size for size in target]
    if math.prod(target) != total:
        raise ValueError(f"it reshapes {list(shape(x))} to {target}")
    return relax.op.reshape(x, target)


def _view(step: TorchStep) -> Result:
    name = "size" if "size" in step.arguments else "shape"
    if not isinstance(step.arguments.get(name), list):
        raise NotImplementedError("a view as another type")
    return reshaped(step.x, step.integers(name))


def _flatten(step: TorchStep) -> Result:
    first, last = step.axis("start_dim", 0), step.axis("end_dim", -1)
    dims = list(shape(step.x))
    if last < first:
        raise ValueError(f"it flattens axes {first} to {last}")
    return reshaped(step.x, [*dims[:first], math.prod(dims[first : last + 1]), *dims[last + 1 :]])


def _unflatten(step: TorchStep) -> Result:
    axis, dims = step.axis("dim"), list(shape(step.x))
    return reshaped(step.x, [*dims[:axis], *step.integers("sizes"), *dims[axis + 1 :]])


def _transpose(step: TorchStep) -> Result:
    order = list(range(step.rank))
    names = next((n for n in EXCHANGED if n[0] in step.arguments), None)
    a, b = (step.axis(name) for name in names) if names else (0, -1)
    order[a], order[b] = order[b], order[a]
    return relax.op.permute_dims(step.x, order)


def _transposed_matrices(step: TorchStep) -> Result:
    order = list(range(step.rank))
    order[-2:] = order[:-3:-1]
    return relax.op.permute_dims(step.x, order)


def _reversed_axes(step: TorchStep) -> Result:
    return relax.op.permute_dims(step.x, list(range(step.rank))[::-1])


def _move_axis(step: TorchStep) -> Result:
    """Move axes to other positions; the others keep their order."""
    sources, targets = (
        [axis_of(axis, step.rank) for axis in step.integers(name)]
        for name in ("source", "destination")
    )
    if (
        len(sources) != len(targets)
        or len({*sources}) < len(sources)
        or len({*targets}) < len(targets)
    ):
        raise ValueError(f"it moves axes {sources} to {targets}")
    order = [axis for axis in range(step.rank) if axis not in sources]
    for target, source in sorted(zip(targets, sources, strict=True)):
        order.insert(target, source)
    return relax.op.permute_dims(step.x, order)


def _repeat_each(step: TorchStep) -> Result:
    """Repeat each element along an axis as often as one number, or one for each, says."""
    count = step.arguments.get("repeats")
    counts = constant(count) if isinstance(count, relax.Expr) else None
    if counts is not None and counts.ndim == 1 and step.arguments.get("dim") is not None:
        places = np.repeat(np.arange(len(counts)), counts)
        if len(counts) == shape(step.x)[step.axis("dim")] and places.size:
            return relax.op.take(
                step.x, relax.const(places, "int64"), step.axis("dim"), mode="clip"
            )
    if type(count) is not int or count < 1 or step.arguments.get("dim") is None:
        raise NotImplementedError(
            "it repeats elements by numbers that are computed, or without an axis; one number or "
            "constant ones, and an axis, are read"
        )
    axis, dims = step.axis("dim"), list(shape(step.x))
    apart = step.emit("apart", relax.op.expand_dims(step.x, axis + 1))
    target = [*dims[: axis + 1], count, *dims[axis + 1 :]]
    repeated = step.emit("repeated", relax.op.broadcast_to(apart, target))
    return relax.op.reshape(repeated, [*dims[:axis], dims[axis] * count, *dims[axis + 1 :]])


def _permute(step: TorchStep) -> Result:
    return relax.op.permute_dims(
        step.x, [axis_of(axis, step.rank) for axis in step.integers("dims")]
    )


def _mesh_grid(step: TorchStep) -> Result:
    """Return each sequence along an axis of its own, repeated along those of the others."""
    parts = step.tensors()
    if any(len(shape(part)) > 1 for part in parts):
        raise ValueError(f"it makes a grid of {[list(shape(part)) for part in parts]}")
    dims = [math.prod(shape(part)) for part in parts]
    axes = list(range(len(parts)))
    if step.text("indexing", "ij") == "xy" and len(parts) > 1:
        axes[:2], dims[:2] = [1, 0], [dims[1], dims[0]]
    grids = []
    for axis, part in zip(axes, parts, strict=True):
        along = [size if i == axis else 1 for i, size in enumerate(dims)]
        row = step.emit("row", relax.op.reshape(part, along))
        grids.append(relax.op.broadcast_to(row, dims))
    return grids


def _squeeze(step: TorchStep) -> Result:
    dims = shape(step.x)
    named = step.integers("dim", list(range(step.rank)))
    gone = {axis_of(axis, step.rank) for axis in named if dims[axis] == 1}
    return relax.op.reshape(step.x, [size for i, size in enumerate(dims) if i not in gone])


def _unsqueeze(step: TorchStep) -> Result:
    dims = list(shape(step.x))
    dims.insert(step.axis("dim", rank=step.rank + 1), 1)
    return relax.op.reshape(step.x, dims)


def _expand(step: TorchStep) -> Result:
    sizes = step.integers("size")
    dims = [1] * (len(sizes) - step.rank) + list(shape(step.x))
    if len(sizes) != len(dims):
        raise ValueError(f"it expands {list(shape(step.x))} to {sizes}")
    target = [old if new == -1 else new for new, old in zip(sizes, dims, strict=True)]
    if 0 in target:
        return filled(target, 0, dtype(step.x))  # as what is behind the last patch of an image
    return step.x if target == list(shape(step.x)) else relax.op.broadcast_to(step.x, target)


def _expand_as(step: TorchStep) -> Result:
    return relax.op.broadcast_to(step.x, shape(step.tensor("other")))


def _view_as(step: TorchStep) -> Result:
    return reshaped(step.x, list(shape(step.tensor("other"))))


def _pad(step: TorchStep) -> Result:
    """Pad by widths from the last axis on, each before and after."""
    widths = step.integers("pad")
    mode = step.text("mode", "constant")
    if mode not in MODES or len(widths) % 2 or len(widths) > 2 * step.rank:
        raise ValueError(f"it pads by {widths} ({mode})")
    sides = [0] * (2 * step.rank - len(widths))
    for begin in range(len(widths) - 2, -1, -2):
        sides += widths[begin : begin + 2]
    x, kept = cropped(lambda value: step.emit("crop", value), step.x, sides, mode)
    return relax.op.nn.pad(x, kept, mode, step.real("value", 0.0))


def _repeat(step: TorchStep) -> Result:
    """Repeat the whole along axes; ``tile`` may name fewer counts than there are axes."""
    counts = step.integers("dims" if "dims" in step.arguments else "repeats")
    return relax.op.tile(step.x, [1] * (step.rank - len(counts)) + counts)


def _broadcast(step: TorchStep) -> Result:
    """Return every tensor in the shape that all have together."""
    parts = step.tensors()
    dims = np.broadcast_shapes(*(shape(part) for part in parts))
    return [part if shape(part) == dims else relax.op.broadcast_to(part, dims) for part in parts]


def _flip(step: TorchStep) -> Result:
    value = step.x
    for axis in step.integers("dims"):
        value = step.emit("flip", relax.op.flip(value, axis_of(axis, step.rank)))
    return value


def _flipped(axis: int) -> Converter:
    return lambda step: relax.op.flip(step.x, axis)


def _turned(step: TorchStep) -> Result:
    """Turn by quarters from the first of two axes to the second."""
    first, second = (axis_of(axis, step.rank) for axis in step.integers("dims", [0, 1]))
    quarters = step.integer("k", 1) % 4
    order = list(range(step.rank))
    order[first], order[second] = second, first
    if quarters == 0:
        return step.x
    if quarters == 2:
        return relax.op.flip(step.emit("flip", relax.op.flip(step.x, first)), second)
    turned = step.emit("turned", relax.op.permute_dims(step.x, order))
    return relax.op.flip(turned, first if quarters == 1 else second)


def _as_strided(step: TorchStep) -> Result:
    """Read a storage in another shape; only in its order, which is a reshape."""
    sizes, strides = step.integers("size"), step.integers("stride")
    in_order = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    offset = step.arguments.get("storage_offset")
    apart = [s for s, o, size in zip(strides, in_order, sizes, strict=True) if s != o and size > 1]
    if apart or offset or math.prod(sizes) != math.prod(shape(step.x)):
        raise NotImplementedError(f"strides {strides} of {sizes}, which are not in order")
    return reshaped(step.x, sizes)


MOVES: dict[str, Converter] = {
    "_unsafe_view": _view,
    "as_strided": _as_strided,
    "broadcast_tensors": _broadcast,
    "broadcast_to": _expand,
    "constant_pad_nd": _pad,
    "expand": _expand,
    "expand_as": _expand_as,
    "flatten": _flatten,
    "flip": _flip,
    "fliplr": _flipped(1),
    "flipud": _flipped(0),
    "meshgrid": _mesh_grid,
    "moveaxis": _move_axis,
    "movedim": _move_axis,
    "mT": _transposed_matrices,
    "numpy_T": _reversed_axes,
    "pad": _pad,
    "permute": _permute,
    "repeat": _repeat,
    "repeat_interleave": _repeat_each,
    "reshape": _view,
    "reshape_as": _view_as,
    "rot90": _turned,
    "squeeze": _squeeze,
    "swapaxes": _transpose,
    "swapdims": _transpose,
    "t": _transpose,
    "tile": _repeat,
    "transpose": _transpose,
    "unflatten": _unflatten,
    "unsqueeze": _unsqueeze,
    "view": _view,
    "view_as": _view_as,
}
"""Operators of the namespace aten."""
