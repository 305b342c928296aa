"""PyTorch operators that cut tensors into parts, or join them."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

from tvm import relax

from relay_int8.frontend.torch.indexing import indices_from_front, taken
from relay_int8.frontend.torch.promotion import as_type, common_type
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import shape


def _alike(step: TorchStep) -> list[relax.Expr]:
    """Return the tensors to join in their common type: PyTorch joins indices with floats too."""
    given = step.tensors()
    kind = common_type([*given])
    return [as_type(step, part, kind) for part in given]


def _concat(step: TorchStep) -> Result:
    """Join tensors; those without elements count nothing."""
    given = _alike(step)
    parts = [part for part in given if 0 not in shape(part)] or given[:1]
    if len(parts) == 1:
        return parts[0]
    return relax.op.concat(parts, step.axis("dim", 0, rank=len(shape(parts[0]))))


def _stack(step: TorchStep) -> Result:
    parts = _alike(step)
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
    if stride < 1:
        raise ValueError(f"it keeps {begin} to {end} by {stride} of {size}")
    # Rotary embeddings cut off the tokens in front of an image, and join them: there may be none.
    return relax.op.strided_slice(step.x, [axis], [begin], [max(begin, end)], [stride])


def _bound(bound: int, size: int) -> int:
    return min(max(bound + size if bound < 0 else bound, 0), size)


def _narrow(step: TorchStep) -> Result:
    axis, length = step.axis("dim"), step.integer("length")
    begin = _bound(step.integer("start"), shape(step.x)[axis])
    if length < 0 or begin + length > shape(step.x)[axis]:
        raise ValueError(f"it keeps {begin} to {begin + length} of {shape(step.x)[axis]}")
    return relax.op.strided_slice(step.x, [axis], [begin], [begin + length])


def _select(step: TorchStep) -> Result:
    axis, computed = step.axis("dim"), step.arguments.get("index")
    dims = list(shape(step.x))
    if isinstance(computed, relax.Expr):
        place = step.emit("place", relax.op.reshape(computed, (1,)))
        place = indices_from_front(step, place, dims[axis])
        part = step.emit("part", taken(step, step.x, place, axis))
        return relax.op.reshape(part, dims[:axis] + dims[axis + 1 :])
    index = step.integer("index")
    index += dims[axis] if index < 0 else 0
    if not 0 <= index < dims[axis]:
        raise ValueError(f"it selects {index} of {dims[axis]}")
    part = step.emit("part", relax.op.strided_slice(step.x, [axis], [index], [index + 1]))
    return relax.op.reshape(part, dims[:axis] + dims[axis + 1 :])


def _parts(step: TorchStep, sizes: list[int], axis: int) -> Result:
    begin, parts = 0, []
    if min(sizes, default=-1) < 0 or sum(sizes) != shape(step.x)[axis]:
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


def _split_along(axis: int) -> Converter:
    """Split along a given axis; hsplit splits vectors along theirs."""

    def _convert(step: TorchStep) -> Result:
        along = {"dim": min(axis, step.rank - 1)}
        return _tensor_split(replace(step, arguments={**step.arguments, **along}))

    return _convert


def _unbind(step: TorchStep) -> Result:
    axis, dims = step.axis("dim", 0), list(shape(step.x))
    parts = _parts(step, _equal_parts(dims[axis], 1), axis)
    rest = dims[:axis] + dims[axis + 1 :]
    return [relax.op.reshape(step.emit("part", part), rest) for part in parts]


def _joined(axis: int, least: int) -> Converter:
    """Join tensors along an axis, after axes of 1 make ``least`` of them; vectors along theirs."""

    def _convert(step: TorchStep) -> Result:
        parts = []
        for part in _alike(step):
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
        for part in _alike(step)
    ]
    return relax.op.concat(parts, 1)


PARTS: dict[str, Converter] = {
    "cat": _concat,
    "chunk": _chunk,
    "column_stack": _columns,
    "concat": _concat,
    "dsplit": _split_along(2),
    "hsplit": _split_along(1),
    "hstack": _joined(axis=1, least=1),
    "narrow": _narrow,
    "select": _select,
    "slice": _slice,
    "split": _split,
    "split_with_sizes": _split,
    "stack": _stack,
    "tensor_split": _tensor_split,
    "unbind": _unbind,
    "vsplit": _split_along(0),
    "vstack": _joined(axis=0, least=2),
}
"""Operators of the namespace aten."""
