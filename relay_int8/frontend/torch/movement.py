"""PyTorch operators that move elements and compute nothing, and those that compute with shapes."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.step import Converter, Result, TorchStep, axis_of
from relay_int8.graph.dataflow import constant, shape

MODES = {"circular": "circular", "constant": "constant", "reflect": "reflect"} | {
    "replicate": "replicate"
}

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
    """Repeat each element along an axis as often as one number says."""
    count = step.arguments.get("repeats")
    if type(count) is not int or count < 1 or step.arguments.get("dim") is None:
        raise NotImplementedError(
            f"it repeats elements by {count}; one number and an axis are read"
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


def _concat(step: TorchStep) -> Result:
    """Join tensors; those without elements count nothing."""
    given = step.tensors()
    parts = [part for part in given if 0 not in shape(part)] or given[:1]
    if len(parts) == 1:
        return parts[0]
    return relax.op.concat(parts, step.axis("dim", 0, rank=len(shape(parts[0]))))


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


def _stack(step: TorchStep) -> Result:
    parts = step.tensors()
    axis = step.axis("dim", 0, rank=len(shape(parts[0])) + 1)
    apart = [step.emit("part", relax.op.expand_dims(part, axis)) for part in parts]
    return relax.op.concat(apart, axis)


def _slice(step: TorchStep) -> Result:
    axis = step.axis("dim", 0)
    size, stride = shape(step.x)[axis], step.integer("step", 1)
    begin, end = (_bound(step.integer(name, default), size) for name, default in
                  (("start", 0), ("end", size)))  # fmt: skip
    if (begin, end, stride) == (0, size, 1):
        return step.x
    if stride < 1 or end <= begin:
        raise ValueError(f"it keeps {begin} to {end} by {stride} of {size}")
    return relax.op.strided_slice(step.x, [axis], [begin], [end], [stride])


def _bound(bound: int, size: int) -> int:
    return min(max(bound + size if bound < 0 else bound, 0), size)


def _narrow(step: TorchStep) -> Result:
    axis, length = step.axis("dim"), step.integer("length")
    begin = _bound(step.integer("start"), shape(step.x)[axis])
    if length < 1 or begin + length > shape(step.x)[axis]:
        raise ValueError(f"it keeps {begin} to {begin + length} of {shape(step.x)[axis]}")
    return relax.op.strided_slice(step.x, [axis], [begin], [begin + length])


def _select(step: TorchStep) -> Result:
    axis, index = step.axis("dim"), step.integer("index")
    dims = list(shape(step.x))
    index += dims[axis] if index < 0 else 0
    if not 0 <= index < dims[axis]:
        raise ValueError(f"it selects {index} of {dims[axis]}")
    part = step.emit("part", relax.op.strided_slice(step.x, [axis], [index], [index + 1]))
    return relax.op.reshape(part, dims[:axis] + dims[axis + 1 :])


def _parts(step: TorchStep, sizes: list[int], axis: int) -> Result:
    begin, parts = 0, []
    if min(sizes, default=0) < 1 or sum(sizes) != shape(step.x)[axis]:
        raise ValueError(f"it splits {shape(step.x)[axis]} into {sizes}")
    for size in sizes:
        part = relax.op.strided_slice(step.x, [axis], [begin], [begin + size])
        parts.append(step.x if len(sizes) == 1 else part)
        begin += size
    return parts


def _split(step: TorchStep) -> Result:
    """Split into parts of one size, the last one smaller, or into parts of given sizes."""
    axis = step.axis("dim", 0)
    size = shape(step.x)[axis]
    name = "split_sizes" if "split_sizes" in step.arguments else "split_size"
    given = step.integers(name)
    if isinstance(step.arguments[name], list):
        return _parts(step, given, axis)
    return _parts(step, _equal_parts(size, given[0]), axis)


def _chunk(step: TorchStep) -> Result:
    axis, count = step.axis("dim", 0), step.integer("chunks")
    if count < 1:
        raise ValueError(f"it makes {count} parts")
    size = shape(step.x)[axis]
    return _parts(step, _equal_parts(size, -(-size // count)), axis)


def _equal_parts(size: int, part: int) -> list[int]:
    if part < 1 or size // part > 4096:
        raise ValueError(f"it splits {size} into parts of {part}")
    return [min(part, size - begin) for begin in range(0, size, part)]


def _tensor_split(step: TorchStep) -> Result:
    """Split into a number of parts, the first ones one longer, or before given positions."""
    axis = step.axis("dim", 0)
    size = shape(step.x)[axis]
    if isinstance(step.arguments.get("indices"), list):
        bounds = [0, *(_bound(index, size) for index in step.integers("indices")), size]
        return _parts(step, [end - begin for begin, end in itertools.pairwise(bounds)], axis)
    count = step.integer("sections")
    if not 0 < count <= size:
        raise ValueError(f"it splits {size} into {count} parts")
    return _parts(step, [size // count + (part < size % count) for part in range(count)], axis)


def _unbind(step: TorchStep) -> Result:
    axis, dims = step.axis("dim", 0), list(shape(step.x))
    parts = _parts(step, _equal_parts(dims[axis], 1), axis)
    rest = dims[:axis] + dims[axis + 1 :]
    return [relax.op.reshape(step.emit("part", part), rest) for part in parts]


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
    if min(widths, default=0) < 0:
        raise NotImplementedError("it crops (negative widths)")
    sides = [0] * (2 * step.rank - len(widths))
    for begin in range(len(widths) - 2, -1, -2):
        sides += widths[begin : begin + 2]
    return relax.op.nn.pad(step.x, sides, MODES[mode], step.real("value", 0.0))


def _repeat(step: TorchStep) -> Result:
    """Repeat the whole along axes; ``tile`` may name fewer counts than there are axes."""
    counts = step.integers("dims" if "dims" in step.arguments else "repeats")
    return relax.op.tile(step.x, [1] * (step.rank - len(counts)) + counts)


def _joined(axis: int, least: int) -> Converter:
    """Join tensors along an axis, after axes of 1 make ``least`` of them; vectors along theirs."""

    def _convert(step: TorchStep) -> Result:
        parts = []
        for part in step.tensors():
            dims = list(shape(part))
            if len(dims) < least:
                dims = [*[1] * (least - len(dims)), *dims]
                part = step.emit("part", relax.op.reshape(part, dims))
            parts.append(part)
        return relax.op.concat(parts, min(axis, len(shape(parts[0])) - 1))

    return _convert


def _columns(step: TorchStep) -> Result:
    """Join matrices, and vectors as columns."""
    parts = [
        part
        if len(shape(part)) > 1
        else step.emit("column", relax.op.reshape(part, (math.prod(shape(part)), 1)))
        for part in step.tensors()
    ]
    return relax.op.concat(parts, 1)


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


def _as_strided(step: TorchStep) -> Result:
    """Read a storage in another shape; only in its order, which is a reshape."""
    sizes, strides = step.integers("size"), step.integers("stride")
    in_order = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    offset = step.arguments.get("storage_offset")
    apart = [s for s, o, size in zip(strides, in_order, sizes, strict=True) if s != o and size > 1]
    if apart or offset or math.prod(sizes) != math.prod(shape(step.x)):
        raise NotImplementedError(f"strides {strides} of {sizes}, which are not in order")
    return reshaped(step.x, sizes)


def _item(step: TorchStep) -> Result:
    """Return the whole number that a constant of one element is."""
    array = constant(step.x)
    if array is None or array.size != 1:
        raise NotImplementedError("a number that depends on values of the input")
    if array.dtype.kind not in "iu":
        raise NotImplementedError(f"a number of {array.dtype}; whole ones are read")
    return int(array.reshape(()))


def _size(step: TorchStep) -> Result:
    return int(shape(step.x)[step.axis("dim")])


def _number(compute: Callable[[int, int], int]) -> Converter:
    """Compute with extents."""

    def _convert(step: TorchStep) -> Result:
        a, b = (step.integer(name) for name in ("a", "b"))
        return compute(a, b)

    return _convert


MOVES: dict[str, Converter] = {
    "_unsafe_view": _view,
    "as_strided": _as_strided,
    "broadcast_tensors": _broadcast,
    "broadcast_to": _expand,
    "cat": _concat,
    "chunk": _chunk,
    "column_stack": _columns,
    "concat": _concat,
    "constant_pad_nd": _pad,
    "expand": _expand,
    "expand_as": _expand_as,
    "flatten": _flatten,
    "flip": _flip,
    "hstack": _joined(axis=1, least=1),
    "meshgrid": _mesh_grid,
    "moveaxis": _move_axis,
    "movedim": _move_axis,
    "mT": _transposed_matrices,
    "narrow": _narrow,
    "numpy_T": _reversed_axes,
    "pad": _pad,
    "permute": _permute,
    "repeat": _repeat,
    "repeat_interleave": _repeat_each,
    "reshape": _view,
    "reshape_as": _view_as,
    "select": _select,
    "slice": _slice,
    "split": _split,
    "split_with_sizes": _split,
    "squeeze": _squeeze,
    "stack": _stack,
    "swapaxes": _transpose,
    "swapdims": _transpose,
    "t": _transpose,
    "tensor_split": _tensor_split,
    "tile": _repeat,
    "transpose": _transpose,
    "unbind": _unbind,
    "unflatten": _unflatten,
    "unsqueeze": _unsqueeze,
    "view": _view,
    "view_as": _view_as,
    "vstack": _joined(axis=0, least=2),
}
"""Operators of the namespace aten."""

EXTENTS: dict[str, Converter] = {
    "_operator.add": _number(operator.add),
    "_operator.floordiv": _number(operator.floordiv),
    "_operator.mul": _number(operator.mul),
    "_operator.sub": _number(operator.sub),
    "aten._local_scalar_dense": _item,
    "aten.item": _item,
    "aten.sym_size": _size,
}
"""Arithmetic of shapes: whole numbers in, whole numbers out."""
