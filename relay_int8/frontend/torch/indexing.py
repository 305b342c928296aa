"""PyTorch operators that read, or overwrite, elements at indices that a tensor gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from tvm import relax

from relay_int8.frontend.masked_writes import rows_written_where, written_where
from relay_int8.frontend.neighbours import sliced_neighbours
from relay_int8.frontend.overwriting import overwritten
from relay_int8.frontend.torch.file import Array
from relay_int8.frontend.torch.promotion import as_type
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import constant, dtype, shape


def indices_from_front(step: TorchStep, indices: relax.Expr, extent: int) -> relax.Expr:
    """Return indices counted from the front; constant ones are checked."""
    if dtype(indices) not in ("int32", "int64"):
        raise NotImplementedError(f"places of {dtype(indices)}")
    array = constant(indices)
    if array is not None:
        if ((array < -extent) | (array >= extent)).any():
            raise ValueError(f"it reads {int(array.min())} to {int(array.max())} of {extent}")
        return relax.const(np.where(array < 0, array + extent, array), dtype(indices))
    below = step.emit("below", relax.op.less(indices, relax.const(0, dtype(indices))))
    wrapped = step.emit("wrapped", relax.op.add(indices, relax.const(extent, dtype(indices))))
    return step.emit("places", relax.op.where(below, wrapped, indices))


def taken(step: TorchStep, x: relax.Expr, indices: relax.Expr, axis: int) -> relax.Expr:
    """Read along an axis; an index outside, for which torch raises, reads the nearest inside."""
    part = sliced_neighbours(partial(step.emit, "slice"), x, indices, axis)
    return relax.op.take(x, indices, axis, mode="clip") if part is None else part


def _embedding(step: TorchStep) -> Result:
    weight, indices = step.tensor("weight"), step.tensor("indices")
    array, rows = constant(indices), shape(weight)[0]
    if array is not None and ((array < 0) | (array >= rows)).any():
        raise ValueError(f"it reads rows {int(array.min())} to {int(array.max())} of {rows}")
    return taken(step, weight, indices, 0)


def _index_select(step: TorchStep) -> Result:
    axis, indices = step.axis("dim"), step.tensor("index")
    return taken(step, step.x, indices_from_front(step, indices, shape(step.x)[axis]), axis)


def _gather(step: TorchStep) -> Result:
    axis, indices = step.axis("dim"), step.tensor("index")
    extent = shape(step.x)[axis]
    if len(shape(indices)) != step.rank:
        raise ValueError(f"its index is {shape(indices)}, for an operand {shape(step.x)}")
    if constant(indices) is None:
        inside = relax.op.clip(indices, relax.prim_value(0), relax.prim_value(extent - 1))
        return relax.op.gather_elements(step.x, step.emit("inside", inside), axis)
    return relax.op.gather_elements(step.x, indices_from_front(step, indices, extent), axis)


def _take_along(step: TorchStep) -> Result:
    """Gather along an axis; operand and indices are broadcast along the others."""
    if step.arguments.get("dim") is None:
        raise NotImplementedError("it reads of all elements: give it an axis (dim)")
    axis, indices = step.axis("dim"), step.tensor("indices")
    if len(shape(indices)) != step.rank:
        raise ValueError(f"its indices are {shape(indices)}, for an operand {shape(step.x)}")
    dims = [max(pair) for pair in zip(shape(step.x), shape(indices), strict=True)]
    x, places = (
        _widened(step, operand, [*dims[:axis], shape(operand)[axis], *dims[axis + 1 :]])
        for operand in (step.x, indices)
    )
    return _gather(replace(step, arguments={"self": x, "dim": axis, "index": places}))


def _widened(step: TorchStep, x: relax.Expr, dims: list[int]) -> relax.Expr:
    if list(shape(x)) == dims:
        return x
    return step.emit("widened", relax.op.broadcast_to(x, dims))


def _index(step: TorchStep) -> Result:
    """Read one index of each indexed axis; indices are broadcast to one shape.

    The axes of that shape stand where the indexed ones stood, in front if those are apart.
    """
    given = _indices(step)
    axes = [axis for axis, indices in enumerate(given) if indices is not None]
    dims, x, first = list(shape(step.x)), step.x, axes[0]
    if axes != list(range(first, first + len(axes))):
        order = axes + [axis for axis in range(step.rank) if axis not in axes]
        x, first = step.emit("turned", relax.op.permute_dims(x, order)), 0
        dims = [dims[axis] for axis in order]
    extents = dims[first : first + len(axes)]
    rows = _merged_indices(step, [i for i in given if i is not None], extents)
    if len(axes) > 1:
        merged = (*dims[:first], math.prod(extents), *dims[first + len(axes) :])
        x = step.emit("merged", relax.op.reshape(x, merged))
    return taken(step, x, rows, first)


def _merged_indices(
    step: TorchStep, indices: list[relax.Expr], extents: Sequence[int]
) -> relax.Expr:
    """Return indices along axes merged to one, from those along each, broadcast to one shape."""
    total = indices_from_front(step, indices[0], extents[0])
    for index_tensor, extent in zip(indices[1:], extents[1:], strict=True):
        wrapped = as_type(step, indices_from_front(step, index_tensor, extent), dtype(total))
        rows = step.emit("rows", relax.op.multiply(total, relax.const(extent, dtype(total))))
        total = step.emit("places", relax.op.add(rows, wrapped))
    return total


def _indices(step: TorchStep) -> list[relax.Expr | None]:
    """Return the indices of each axis; constant masks become the indices of their true elements."""
    given = step.arguments.get("indices")
    if not isinstance(given, list) or not any(isinstance(i, relax.Expr) for i in given):
        raise ValueError("it has no indices")
    indices: list[relax.Expr | None] = []
    for index_tensor in given:
        if not isinstance(index_tensor, relax.Expr) or dtype(index_tensor) not in ("bool", "uint8"):
            indices.append(index_tensor)
            continue
        array = constant(index_tensor)
        if array is None:
            raise NotImplementedError(
                "how large its result is depends on values of the input (a mask of truth values): "
                "write it with torch.where"
            )
        indices.extend(relax.const(axis, "int64") for axis in np.nonzero(array))
    if len(indices) > step.rank:
        raise ValueError(f"{len(indices)} indices of {step.rank} axes")
    return indices


def _nonzero(step: TorchStep) -> Result:
    """Return the indices of what is not zero, of constants: as many rows as there are."""
    array = constant(step.x)
    if array is None:
        raise NotImplementedError(
            "how large its result is depends on values of the input: write it with torch.where"
        )
    return relax.const(np.argwhere(array), "int64")


def _counted(x: relax.Expr) -> Array:
    """Return the position of every element of a tensor, in its shape."""
    return np.arange(math.prod(shape(x))).reshape(shape(x))


def _slice_scatter(step: TorchStep) -> Result:
    axis = step.axis("dim", 0)
    start, end = (
        default if step.arguments.get(name) is None else step.integer(name)
        for name, default in (("start", 0), ("end", shape(step.x)[axis]))
    )
    kept = (*[slice(None)] * axis, slice(start, end, step.integer("step", 1)))
    return _scattered(step, _counted(step.x)[kept])


def _select_scatter(step: TorchStep) -> Result:
    axis, index = step.axis("dim"), step.integer("index")
    return _scattered(step, _counted(step.x).take(index, axis))


def _scattered(step: TorchStep, positions: Array) -> Result:
    value = step.tensor("src")
    if shape(value) != positions.shape or not positions.size:
        raise ValueError(f"it writes {shape(value)} over {positions.shape}")
    return overwritten(step.emit, step.x, positions, as_type(step, value, dtype(step.x)))


def _index_put(step: TorchStep) -> Result:
    """Overwrite elements at indices, or add to them: each index writes where reading would read."""
    value = as_type(step, step.tensor("values"), dtype(step.x))
    given = step.arguments.get("indices")
    if isinstance(given, list) and len(given) == 1 and _is_computed_mask(given[0]):
        return _masked_put(step, given[0], value)
    indices = _indices(step)
    adds = step.flag("accumulate", False)
    arrays = [None if i is None else constant(i) for i in indices]
    if adds or any(a is None and i is not None for a, i in zip(arrays, indices, strict=True)):
        return _written(step, indices, value, "add" if adds else "update")
    positions = _counted(step.x)[tuple(slice(None) if a is None else a for a in arrays)]
    whole = step.emit("values", relax.op.broadcast_to(value, positions.shape))
    return overwritten(step.emit, step.x, positions, whole)


def _is_computed_mask(given: object) -> bool:
    return isinstance(given, relax.Expr) and dtype(given) == "bool" and constant(given) is None


def _masked_put(step: TorchStep, mask: relax.Expr, value: relax.Expr) -> Result:
    """Write one row, or one value, wherever a mask is true, or rows in their order."""
    if step.flag("accumulate", False):
        raise NotImplementedError(
            "which values it adds depends on a mask of the input: write it with torch.where"
        )
    rest = step.rank - len(shape(mask))
    mask = step.emit("apart", relax.op.reshape(mask, (*shape(mask), *[1] * rest)))
    mask = step.emit("mask", relax.op.broadcast_to(mask, shape(step.x)))
    return rows_written_where(step.emit, step.x, mask, value, rest)


def _masked_scatter(step: TorchStep) -> Result:
    """Write the elements of ``source``, in their order, wherever a mask is true."""
    mask = step.emit("mask", relax.op.broadcast_to(step.tensor("mask"), shape(step.x)))
    source = as_type(step, step.tensor("source"), dtype(step.x))
    return written_where(step.emit, step.x, mask, source)


def _written(
    step: TorchStep, indices: list[relax.Expr | None], value: relax.Expr, reduction: str
) -> Result:
    """Write rows of the merged indexed axes, which stand in front of the others meanwhile."""
    axes = [axis for axis, index_tensor in enumerate(indices) if index_tensor is not None]
    order = axes + [axis for axis in range(step.rank) if axis not in axes]
    dims = shape(step.x)
    extents, rest = [dims[axis] for axis in axes], [dims[axis] for axis in order[len(axes) :]]
    rows = _merged_indices(step, [i for i in indices if i is not None], extents)
    inside = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    written = [*rest[:inside], *shape(rows), *rest[inside:]]
    value = step.emit("values", relax.op.broadcast_to(value, written))
    front = list(range(inside, inside + len(shape(rows))))
    value = relax.op.permute_dims(
        value, front + [axis for axis in range(len(written)) if axis not in front]
    )
    count, merged = math.prod(shape(rows)), (math.prod(extents), *rest)
    value = step.emit("turned", value)
    updates = step.emit("updates", relax.op.reshape(value, (count, *rest)))
    x = step.emit("front", relax.op.permute_dims(step.x, order))
    x = step.emit("merged", relax.op.reshape(x, merged))
    rows = step.emit("column", relax.op.reshape(rows, (count, 1)))
    y = step.emit("written", relax.op.scatter_nd(x, rows, updates, reduction))
    y = step.emit("apart", relax.op.reshape(y, [dims[axis] for axis in order]))
    return relax.op.permute_dims(y, [order.index(axis) for axis in range(step.rank)])


def _unfold(step: TorchStep) -> Result:
    """Return windows of an axis, ``step`` apart, their elements along a new last axis."""
    axis, size, apart = step.axis("dimension"), step.integer("size"), step.integer("step")
    count = (shape(step.x)[axis] - size) // apart + 1 if apart > 0 else 0
    if size < 1 or count < 1:
        raise ValueError(f"windows of {size}, {apart} apart, of {shape(step.x)[axis]}")
    places = np.arange(count)[:, None] * apart + np.arange(size)
    windows = step.emit("windows", taken(step, step.x, relax.const(places, "int64"), axis))
    order = [i for i in range(step.rank + 1) if i != axis + 1]
    return relax.op.permute_dims(windows, [*order, axis + 1])


def _copy(step: TorchStep) -> Result:
    """Return the source in the shape and type of the tensor that it overwrites."""
    value = as_type(step, step.tensor("src"), dtype(step.x))
    if shape(value) == shape(step.x):
        return value
    return relax.op.broadcast_to(value, shape(step.x))


INDEXING: dict[str, Converter] = {
    "copy": _copy,
    "embedding": _embedding,
    "gather": _gather,
    "index": _index,
    "index_put": _index_put,
    "index_select": _index_select,
    "masked_scatter": _masked_scatter,
    "nonzero": _nonzero,
    "select_scatter": _select_scatter,
    "slice_scatter": _slice_scatter,
    "take_along_dim": _take_along,
    "unfold": _unfold,
}
