"""ONNX operators that read and write at positions: Gather, Scatter and their kin.

An index below zero counts from the end. Constant indices are checked here; those of inputs when the
network runs, and computed ones are clamped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, tirx

from relay_int8.frontend.masked_writes import rows_written_where, written_where
from relay_int8.frontend.neighbours import sliced_neighbours
from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.frontend.onnx.operators.operands import known_array, known_integers
from relay_int8.frontend.overwriting import box_overwritten
from relay_int8.frontend.scatter import scatter_elements as elements_scattered
from relay_int8.graph.dataflow import constant, dtype, shape

Array = np.ndarray[Any, Any]
REDUCTIONS = {"none": "update", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def gather(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Gather along an axis; constant neighbours, or a single constant one, are a slice.

    So are neighbours that lie along several axes, as exporters write views of the whole memory.
    """
    x = inputs[0]
    dims = shape(x)
    axis = int(attributes.get("axis", 0)) % len(dims)
    indices = _from_start(bb, inputs[1], np.array(dims[axis]))
    part = sliced_neighbours(bb.emit, x, indices, axis)
    return relax.op.take(x, indices, axis) if part is None else part


def gather_nd(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Gather at coordinates, which are along the last dimension of the indices.

    Constant ones along a single axis may be a slice: PyTorch writes ``x[..., [i], :]`` so.
    """
    x, indices = inputs
    batch_dims = int(attributes.get("batch_dims", 0))
    positions = constant(indices)
    if positions is not None and positions.shape[-1] == 1 and not batch_dims:
        return gather(bb, [x, relax.const(positions[..., 0])], {"axis": 0})
    extents = _coordinate_extents(x, indices, batch_dims)
    return relax.op.gather_nd(x, _from_start(bb, indices, extents), batch_dims)


def gather_elements(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]
) -> relax.Expr:
    """Gather one element for each index; other axes of the indices may be shorter."""
    x, indices = inputs
    axis = int(attributes.get("axis", 0)) % len(shape(x))
    indices = _from_start(bb, indices, np.array(shape(x)[axis]))
    longer = [i for i, n in enumerate(shape(x)) if i != axis and n > shape(indices)[i]]
    if longer:
        ends = [shape(indices)[i] for i in longer]
        x = bb.emit(relax.op.strided_slice(x, longer, [0] * len(longer), ends))
    return relax.op.gather_elements(x, indices, axis)


def scatter_elements(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]
) -> relax.Expr:
    """Write one element for each index; other axes of the indices may be shorter."""
    x, indices, updates = inputs
    axis = int(attributes.get("axis", 0)) % len(shape(x))
    indices = _from_start(bb, indices, np.array(shape(x)[axis]))
    reduction = _reduction(attributes)
    return elements_scattered(lambda _, value: bb.emit(value), x, indices, updates, axis, reduction)


def scatter_nd(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Write at coordinates, which are along the last dimension of the indices.

    A box of constant ones is joined with the rest of x: PyTorch writes ``x[:, :4] = y`` so.
    """
    x, indices, updates = inputs
    indices = _from_start(bb, indices, _coordinate_extents(x, indices, 0))
    reduction, array = _reduction(attributes), constant(indices)
    if array is not None and reduction == REDUCTIONS["none"]:
        counted = np.arange(np.prod(shape(x))).reshape(shape(x))
        positions = counted[tuple(np.moveaxis(array, -1, 0))]
        joined = box_overwritten(lambda _, value: bb.emit(value), x, positions, updates)
        if joined is not None:
            return joined
    return relax.op.scatter_nd(x, indices, updates, reduction)


def one_hot(bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]) -> relax.Expr:
    """Write one value where an index is, another elsewhere; the depth may be a vector of one."""
    indices, values = inputs[0], known_array(inputs[2], "its values are")
    (count,), array = known_integers(inputs[1], "its depth is"), constant(indices)
    if array is None:
        indices = _from_start(bb, indices, np.array(count))
    else:
        indices = relax.const(np.where(array < 0, array + count, array), dtype(indices))
    off, on = (relax.prim_value(tirx.const(value.item(), str(values.dtype))) for value in values)
    return relax.op.one_hot(indices, on, off, count, int(attributes.get("axis", -1)))


def reverse_sequence(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: dict[str, Any]
) -> relax.Expr:
    """Turn around the first steps of each sequence, as many as its length says."""
    x, lengths = inputs[0], known_array(inputs[1], "its sequence_lens are")
    time, batch = int(attributes.get("time_axis", 0)), int(attributes.get("batch_axis", 1))
    steps, count = shape(x)[time], shape(x)[batch]
    if lengths.shape != (count,) or lengths.min() < 0 or lengths.max() > steps:
        raise ValueError(f"its sequence_lens are {lengths.tolist()}, of {count} of {steps} steps")
    if lengths.min() == lengths.max():
        return _turned(bb, x, time, int(lengths[0]))
    rows = [bb.emit(relax.op.strided_slice(x, [batch], [i], [i + 1])) for i in range(count)]
    turned = [_turned(bb, row, time, int(n)) for row, n in zip(rows, lengths, strict=True)]
    return relax.op.concat(turned, batch)


def _turned(bb: relax.BlockBuilder, x: relax.Expr, time: int, length: int) -> relax.Expr:
    """Return ``x`` with its first ``length`` steps in the other order."""
    steps = shape(x)[time]
    if length < 2:
        return x
    if length == steps:
        return bb.emit(relax.op.flip(x, time))
    first = bb.emit(relax.op.strided_slice(x, [time], [0], [length]))
    rest = bb.emit(relax.op.strided_slice(x, [time], [length], [steps]))
    return bb.emit(relax.op.concat([bb.emit(relax.op.flip(first, time)), rest], time))


def gathered_elements(x: Array, indices: Array, axis: int) -> Array:
    """Return what GatherElements gives for constants.

    ONNX's reference implementation has no index that is shorter than the data, and fails where the
    leading extent is 1.
    """
    coordinates: list[Array] = [*np.indices(indices.shape, sparse=True)]
    coordinates[axis] = _valid(indices, np.array(x.shape[axis]))
    return np.asarray(x[tuple(coordinates)])


def _coordinate_extents(x: relax.Expr, indices: relax.Expr, first: int) -> Array:
    return np.array(shape(x)[first : first + shape(indices)[-1]])


def _reduction(attributes: dict[str, Any]) -> str:
    return REDUCTIONS[attributes.get("reduction", b"none").decode()]


def _from_start(bb: relax.BlockBuilder, indices: Any, extents: Array) -> relax.Expr:
    """Return indices that count from zero."""
    array, kind = constant(indices), dtype(indices)
    if array is not None:
        return relax.const(_valid(array, extents), kind)
    if kind.startswith("uint"):
        return indices
    is_negative = bb.emit(relax.op.less(indices, relax.const(0, kind)))
    wrapped = bb.emit(relax.op.add(indices, relax.const(extents.astype(kind), kind)))
    return bb.emit(relax.op.where(is_negative, wrapped, indices))


def _valid(indices: Array, extents: Array) -> Array:
    """Return constant indices that count from zero; ValueError if one is out of bounds."""
    if ((indices < -extents) | (indices >= extents)).any():
        raise ValueError(
            f"its indices are {indices.min()} to {indices.max()}, outside of {extents.tolist()}"
        )
    return np.where(indices < 0, indices + extents, indices).astype(indices.dtype)


def masked_scatter(
    bb: relax.BlockBuilder, inputs: list[Any], _attributes: dict[str, Any]
) -> relax.Expr:
    """Write where a mask is true, as ``rewrites.masked_writes`` finds it."""
    x, mask, source, *dims = inputs
    if shape(mask) != shape(x):
        raise NotImplementedError(f"a mask of {shape(mask)} says where it writes to {shape(x)}")
    if dtype(mask) != "bool":
        mask = bb.emit(relax.op.not_equal(mask, relax.const(0, dtype(mask))))

    def _emit(_: str, value: relax.Expr) -> relax.Expr:
        return bb.emit(value)

    if not dims:
        return written_where(_emit, x, mask, source)
    return rows_written_where(_emit, x, mask, source, len(known_integers(dims[0], "its rows are")))


def masked_fill(
    bb: relax.BlockBuilder, inputs: list[Any], _attributes: dict[str, Any]
) -> relax.Expr:
    """Write a number where a mask is true; axes behind the mask's are written as a whole."""
    x, mask, number = inputs
    rank, dims = len(shape(mask)), shape(x)
    if shape(mask) != dims[:rank]:
        raise NotImplementedError(f"a mask of {shape(mask)} says where it writes to {dims}")
    if dtype(mask) != "bool":
        mask = bb.emit(relax.op.not_equal(mask, relax.const(0, dtype(mask))))
    mask = bb.emit(relax.op.reshape(mask, (*dims[:rank], *[1] * (len(dims) - rank))))
    number = bb.emit(relax.op.reshape(number, (1,) * len(dims)))
    return relax.op.where(mask, number, x)


INDEX_CONVERTERS: dict[str, Converter] = {
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "MaskedFill": masked_fill,
    "MaskedScatter": masked_scatter,
    "OneHot": one_hot,
    "ReverseSequence": reverse_sequence,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
}
