"""TFLite operators that read by indices, or put elements in another order along an axis."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from tvm import relax, tirx

from relay_int8.frontend.folding import MOST_ELEMENTS
from relay_int8.frontend.neighbours import sliced_neighbours
from relay_int8.frontend.overwriting import overwritten
from relay_int8.frontend.reversing import reversed_sequences
from relay_int8.frontend.tflite.step import Converter, TfliteStep
from relay_int8.frontend.tflite.tensors import Result, axis_of, quantization_of
from relay_int8.graph.dataflow import constant, dtype, shape


def _gather(step: TfliteStep) -> Result:
    """Take slices along an axis; of batches, each by its own indices.

    Constant neighbours are a slice, as the step is that a loop over a sequence reads.
    """
    x, indices = step.plain(0), step.plain(1)
    axis = axis_of(step.integer("axis"), len(shape(x)))
    batches = step.integer("batch_dims") % max(len(shape(indices)), 1)
    if not batches:
        positions, extent = constant(indices), shape(x)[axis]
        if positions is not None and ((positions < 0) | (positions >= extent)).any():
            raise ValueError(f"indices {positions.min()} to {positions.max()} of {extent}")
        part = sliced_neighbours(partial(step.emit, "slice"), x, indices, axis)
        return relax.op.take(x, indices, axis) if part is None else part
    if batches > axis or shape(x)[:batches] != shape(indices)[:batches]:
        raise ValueError(f"{batches} axes of batches of {shape(x)} and {shape(indices)}")
    if batches < axis:
        raise NotImplementedError(f"along axis {axis} with {batches} axes of batches")
    places = step.emit("places", relax.op.expand_dims(indices, len(shape(indices))))
    return _elements(step, x, places, batches)


def _gather_nd(step: TfliteStep) -> Result:
    return _elements(step, step.plain(0), step.plain(1), 0)


def _elements(step: TfliteStep, x: relax.Expr, places: relax.Expr, batches: int) -> relax.Expr:
    """Return what lies at given coordinates, which TVM wants as int64."""
    long = step.emit("long", relax.op.astype(places, "int64"))
    return relax.op.gather_nd(x, long, batches)


def _embedding_lookup(step: TfliteStep) -> Result:
    """Take rows of a table, the second operand."""
    return relax.op.take(step.plain(1), step.plain(0), 0)


def _one_hot(step: TfliteStep) -> Result:
    """Write one value where the index is, another elsewhere."""
    (depth,) = step.integers(1, "depth")
    result = step.outputs[0]
    is_scaled = quantization_of(result) is not None
    on, off = (step.reals(index) if is_scaled else step.known(index) for index in (2, 3))
    if on is None or off is None or on.size != 1 or off.size != 1:
        raise NotImplementedError("values that are computed, not constant")
    indices = step.plain(0)
    axis, rank = step.integer("axis"), len(shape(indices))
    if not -1 <= axis <= rank or depth < 1:
        raise ValueError(f"axis {axis} and depth {depth} of indices {list(shape(indices))}")
    kind = "float32" if is_scaled else result.dtype  # Python's would be float64 and int64
    values = [relax.prim_value(tirx.const(value.item(), kind)) for value in (on, off)]
    return relax.op.one_hot(indices, *values, depth, axis)


def _reverse(step: TfliteStep) -> Result:
    (x,), wrap = step.together(0)
    axes = [step.axis(axis, len(shape(x))) for axis in step.integers(1, "axes")]
    for axis in axes:
        x = step.emit("reversed", relax.op.flip(x, axis))
    return wrap(x)


def _reverse_sequence(step: TfliteStep) -> Result:
    x, lengths = step.plain(0), step.plain(1)
    rank = len(shape(x))
    time, batch = (axis_of(step.integer(name), rank) for name in ("axis", "batch_axis"))
    return reversed_sequences(step.emit, x, lengths, time, batch)


def _scatter(step: TfliteStep) -> Result:
    """Add slices at coordinates to zeros."""
    places, updates = step.plain(0), step.plain(1)
    sizes = step.integers(2, "shape")
    if min(sizes, default=1) < 1 or math.prod(sizes) > MOST_ELEMENTS:
        raise ValueError(f"its shape is {list(sizes)}")
    zeros = relax.const(np.zeros(sizes, dtype(updates)))
    long = step.emit("long", relax.op.astype(places, "int64"))
    return relax.op.scatter_nd(zeros, long, updates, "add")


def _updated_slice(step: TfliteStep) -> Result:
    """Overwrite a box of a tensor; it is moved inside where it would reach over the end."""
    x, update = step.plain(0), step.plain(1)
    begins = step.integers(2, "start")
    if len(begins) != len(shape(x)) or len(shape(update)) != len(begins):
        raise ValueError(f"its start is {list(begins)} for {list(shape(x))}")
    sizes = list(zip(begins, shape(x), shape(update), strict=True))
    ranges = [np.arange(part) + max(0, min(at, size - part)) for at, size, part in sizes]
    elements = np.arange(math.prod(shape(x))).reshape(shape(x))
    return overwritten(step.emit, x, elements[np.ix_(*ranges)], update)


def _cumulative_sum(step: TfliteStep) -> Result:
    x = step.plain(0)
    (axis,) = step.integers(1, "axis")
    axis = axis_of(axis, len(shape(x)))
    backward = bool(step.options["reverse"])
    if backward:
        x = step.emit("reversed", relax.op.flip(x, axis))
    y = relax.op.cumsum(x, axis, exclusive=bool(step.options["exclusive"]))
    return relax.op.flip(step.emit("summed", y), axis) if backward else y


def _tile(step: TfliteStep) -> Result:
    x, counts = step.plain(0), step.integers(1, "counts")
    if len(counts) != len(shape(x)) or min(counts, default=1) < 1:
        raise ValueError(f"its counts are {list(counts)} for {list(shape(x))}")
    return relax.op.tile(x, list(counts))


def _broadcast_to(step: TfliteStep) -> Result:
    return relax.op.broadcast_to(step.plain(0), list(step.integers(1, "shape")))


def _buckets(step: TfliteStep) -> Result:
    """Return how many boundaries are not above each element."""
    x, boundaries = step.plain(0), np.array(step.options["boundaries"], "float32")
    if dtype(x) != "float32":
        x = step.emit("real", relax.op.astype(x, "float32"))
    column = step.emit("column", relax.op.expand_dims(x, -1))
    reached = step.emit("reached", relax.op.greater_equal(column, relax.const(boundaries)))
    return relax.op.sum(step.emit("ones", relax.op.astype(reached, "int32")), [-1])


def _top(step: TfliteStep) -> list[Result]:
    """Return the largest elements of each row and where they are."""
    (count,) = step.integers(1, "count")
    x = step.plain(0)
    if not 0 < count <= shape(x)[-1]:
        raise ValueError(f"{count} elements of {list(shape(x))}")
    pair = step.emit("top", relax.op.topk(x, count, -1, "both", True, step.outputs[1].dtype))
    return [relax.TupleGetItem(pair, place) for place in (0, 1)]


INDICES: dict[str, Converter] = {
    "BROADCAST_TO": _broadcast_to,
    "BUCKETIZE": _buckets,
    "CUMSUM": _cumulative_sum,
    "DYNAMIC_UPDATE_SLICE": _updated_slice,
    "EMBEDDING_LOOKUP": _embedding_lookup,
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "ONE_HOT": _one_hot,
    "REVERSE_SEQUENCE": _reverse_sequence,
    "REVERSE_V2": _reverse,
    "SCATTER_ND": _scatter,
    "TILE": _tile,
    "TOPK_V2": _top,
}
