"""PyTorch operators that read, or overwrite, elements at indices that a tensor gives."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.file import Array
from relay_int8.frontend.torch.promotion import as_type
from relay_int8.frontend.torch.step import Converter, Result, TorchStep, axis_of
from relay_int8.graph.dataflow import constant, dtype, shape

Emit = Callable[[str, relax.Expr], relax.Expr]


def _indices_from_front(step: TorchStep, indices: relax.Expr, extent: int) -> relax.Expr:
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


def taken(x: relax.Expr, indices: relax.Expr, axis: int) -> relax.Expr:
    """Read along an axis; an index outside, for which torch raises, reads the nearest inside."""
    return relax.op.take(x, indices, axis, mode="clip")


def _embedding(step: TorchStep) -> Result:
    weight, indices = step.tensor("weight"), step.tensor("indices")
    array, rows = constant(indices), shape(weight)[0]
    if array is not None and ((array < 0) | (array >= rows)).any():
        raise ValueError(f"it reads rows {int(array.min())} to {int(array.max())} of {rows}")
    return taken(weight, indices, 0)


def _index_select(step: TorchStep) -> Result:
    axis, indices = step.axis("dim"), step.tensor("index")
    return taken(step.x, _indices_from_front(step, indices, shape(step.x)[axis]), axis)


def _gather(step: TorchStep) -> Result:
    axis, indices = step.axis("dim"), step.tensor("index")
    extent = shape(step.x)[axis]
    if len(shape(indices)) != step.rank:
        raise ValueError(f"its index is {shape(indices)}, for an operand {shape(step.x)}")
    if constant(indices) is None:
        inside = relax.op.clip(indices, relax.prim_value(0), relax.prim_value(extent - 1))
        return relax.op.gather_elements(step.x, step.emit("inside", inside), axis)
    return relax.op.gather_elements(step.x, _indices_from_front(step, indices, extent), axis)


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
    extents, total = dims[first : first + len(axes)], None
    for index_tensor, extent in zip((given[axis] for axis in axes), extents, strict=True):
        wrapped = _indices_from_front(step, index_tensor, extent)
        if total is not None:
            rows = relax.op.multiply(total, relax.const(extent, dtype(total)))
            wrapped = as_type(step, wrapped, dtype(total))
            wrapped = step.emit("places", relax.op.add(step.emit("rows", rows), wrapped))
        total = wrapped
    assert total is not None
    if len(axes) > 1:
        merged = (*dims[:first], math.prod(extents), *dims[first + len(axes) :])
        x = step.emit("merged", relax.op.reshape(x, merged))
    return taken(x, total, first)


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


def _roll(step: TorchStep) -> Result:
    """Move along axes, what leaves at one end enters at the other; all elements without axes."""
    shifts, dims = step.integers("shifts"), step.integers("dims", [])
    if not dims:
        flat = step.emit("flat", relax.op.reshape(step.x, (math.prod(shape(step.x)),)))
        rolled = _rolled(step.emit, flat, 0, sum(shifts))
        return relax.op.reshape(rolled, shape(step.x))
    if len(shifts) != len(dims):
        raise ValueError(f"{len(shifts)} shifts of {len(dims)} axes")
    x = step.x
    for shift, axis in zip(shifts, dims, strict=True):
        x = _rolled(step.emit, x, axis_of(axis, step.rank), shift)
    return x


def _rolled(emit: Emit, x: relax.Expr, axis: int, shift: int) -> relax.Expr:
    size = shape(x)[axis]
    begin = -shift % size
    if not begin:
        return x
    tail = emit("tail", relax.op.strided_slice(x, [axis], [begin], [size]))
    head = emit("head", relax.op.strided_slice(x, [axis], [0], [begin]))
    return emit("rolled", relax.op.concat([tail, head], axis))


def overwritten(emit: Emit, x: relax.Expr, positions: Array, value: relax.Expr) -> relax.Expr:
    """Return ``x`` with the elements of ``value`` at positions of the flattened x.

    A constant says for every element of the result which of both it is, x before value.
    """
    total = math.prod(shape(x))
    source = np.arange(total)
    source[positions.reshape(-1)] = total + np.arange(positions.size)
    flat = [relax.op.reshape(part, (math.prod(shape(part)),)) for part in (x, value)]
    if (source >= total).all() and (np.diff(source) == 1).all():
        return relax.op.reshape(value, shape(x))
    both = emit("both", relax.op.concat([emit("flat", part) for part in flat], 0))
    merged = relax.const(source.reshape(shape(x)), "int64")
    return emit("overwritten", taken(both, merged, 0))


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
    """Overwrite elements at constant indices."""
    if step.flag("accumulate", False):
        raise NotImplementedError("it adds to places (accumulate)")
    arrays = [None if i is None else constant(i) for i in _indices(step)]
    if any(a is None and i is not None for a, i in zip(arrays, _indices(step), strict=True)):
        raise NotImplementedError("places that are computed from the input")
    positions = _counted(step.x)[tuple(slice(None) if a is None else a for a in arrays)]
    value = as_type(step, step.tensor("values"), dtype(step.x))
    whole = step.emit("values", relax.op.broadcast_to(value, positions.shape))
    return overwritten(step.emit, step.x, positions, whole)


def _triangle(upper: bool) -> Converter:
    """Keep what is on one side of a diagonal; the rest is zero."""

    def _convert(step: TorchStep) -> Result:
        diagonal = step.integer("diagonal", 0)
        rows, columns = shape(step.x)[-2:]
        kept = np.tri(rows, columns, diagonal - upper, dtype=bool) ^ upper
        return relax.op.where(relax.const(kept, "bool"), step.x, step.number(0))

    return _convert


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
    "roll": _roll,
    "select_scatter": _select_scatter,
    "slice_scatter": _slice_scatter,
    "tril": _triangle(upper=False),
    "triu": _triangle(upper=True),
}
