"""PyTorch's bags of embeddings: rows of a table, of which each bag adds up some."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.indexing import taken
from relay_int8.frontend.torch.promotion import as_type
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import constant, dtype, shape

COMBINE = (relax.op.sum, relax.op.mean, relax.op.max)
"""By torch's number of a mode."""


def _embedding_bag(step: TorchStep) -> Result:
    """Return sums, means or maxima of bags, the first result of four.

    Bags lie behind each other in the indices, and begin at offsets that are constant or computed.
    """
    table, indices = step.tensor("weight"), step.tensor("indices")
    mode = step.integer("mode", 0)
    if mode not in range(len(COMBINE)):
        raise ValueError(f"its mode is {mode}")
    rows, padding = (
        step.emit("rows", taken(step, table, indices, 0)),
        step.integer("padding_idx", -1),
    )
    weights = step.optional_tensor("per_sample_weights")
    if weights is not None:
        column = step.emit("column", relax.op.expand_dims(weights, 1))
        rows = step.emit("weighted", relax.op.multiply(rows, column))
    offsets = step.tensor("offsets")
    begins = constant(offsets)
    if begins is None:
        if padding >= 0 or COMBINE[mode] is relax.op.max:
            raise NotImplementedError(
                "where bags begin is computed, and it is a maximum or has a padding_idx: give it "
                "indices of two axes, a bag a row"
            )
        return [_by_members(step, rows, offsets, is_mean=COMBINE[mode] is relax.op.mean)]
    bounds = _bounds(step, begins, shape(indices)[0])
    if (np.diff(bounds) < 1).any():
        raise NotImplementedError("an empty bag")
    if padding < 0:
        return [_combined(step, rows, bounds, COMBINE[mode])]
    if COMBINE[mode] is relax.op.max:
        raise NotImplementedError("rows that do not count (padding_idx) in a maximum")
    counts = step.emit("counts", relax.op.not_equal(indices, relax.const(padding, dtype(indices))))
    column = step.emit("each", relax.op.expand_dims(as_type(step, counts, dtype(rows)), 1))
    rows = step.emit("counted", relax.op.multiply(rows, column))
    total = _combined(step, rows, bounds, relax.op.sum)
    if COMBINE[mode] is relax.op.sum:
        return [total]
    count = step.emit("count", _combined(step, column, bounds, relax.op.sum))
    least = step.emit("least", relax.op.maximum(count, relax.const(1.0, dtype(rows))))
    return [relax.op.divide(step.emit("total", total), least)]


def _combined(
    step: TorchStep, rows: relax.Expr, bounds: np.ndarray, combine: Callable[..., relax.Expr]
) -> relax.Expr:
    """Return a row for each bag of rows."""
    sizes = np.diff(bounds)
    if (sizes == sizes[0]).all():
        apart = (len(sizes), int(sizes[0]), shape(rows)[1])
        return combine(step.emit("bags", relax.op.reshape(rows, apart)), 1)
    bags = []
    for begin, end in itertools.pairwise(bounds):
        bag = step.emit("bag", relax.op.strided_slice(rows, [0], [int(begin)], [int(end)]))
        bags.append(step.emit("combined", combine(bag, 0, keepdims=True)))
    return relax.op.concat(bags, 0)


def _by_members(
    step: TorchStep, rows: relax.Expr, offsets: relax.Expr, *, is_mean: bool
) -> relax.Expr:
    """Return sums or means of bags that begin at computed offsets; of empty ones, zeros.

    A matrix of zeros and ones, (bags, rows), says which rows are members; sums are its product.
    """
    count, bags, kind = shape(rows)[0], shape(offsets)[0], dtype(offsets)
    ends = offsets
    if not step.flag("include_last_offset", False):
        last = relax.const([count], kind)
        ends = step.emit("bounds", relax.op.concat([offsets, last], 0))
        bags += 1
    begin, end = (
        step.emit("bound", relax.op.expand_dims(step.emit("bound", bound), 1))
        for bound in (
            relax.op.strided_slice(ends, [0], [0], [bags - 1]),
            relax.op.strided_slice(ends, [0], [1], [bags]),
        )
    )
    places = relax.const(np.arange(count)[None], kind)
    has_begun = step.emit("begun", relax.op.greater_equal(places, begin))
    has_not_ended = step.emit("before", relax.op.less(places, end))
    members = step.emit("members", relax.op.logical_and(has_begun, has_not_ended))
    matrix = step.emit("matrix", as_type(step, members, dtype(rows)))
    total = relax.op.matmul(matrix, rows)
    if not is_mean:
        return total
    sizes = step.emit("sizes", relax.op.sum(matrix, 1, keepdims=True))
    least = step.emit("least", relax.op.maximum(sizes, relax.const(1.0, dtype(rows))))
    return relax.op.divide(step.emit("total", total), least)


def _bounds(step: TorchStep, offsets: np.ndarray, count: int) -> np.ndarray:
    """Return where bags begin, and the end of the last."""
    if step.flag("include_last_offset", False):
        return offsets
    return np.append(offsets, count)


BAGS: dict[str, Converter] = {
    "_embedding_bag": _embedding_bag,
    "_embedding_bag_forward_only": _embedding_bag,
    "embedding_bag": _embedding_bag,
}
