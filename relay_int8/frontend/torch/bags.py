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

    Bags lie behind each other in the indices and begin at constant offsets.
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
    bounds = _bounds(step, shape(indices)[0])
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


def _bounds(step: TorchStep, count: int) -> np.ndarray:
    """Return where bags begin, and the end of the last."""
    offsets = constant(step.tensor("offsets"))
    if offsets is None:
        raise NotImplementedError(
            "where bags begin is computed, not constant: give it indices of two axes, a bag a row"
        )
    if step.flag("include_last_offset", False):
        return offsets
    return np.append(offsets, count)


BAGS: dict[str, Converter] = {
    "_embedding_bag": _embedding_bag,
    "_embedding_bag_forward_only": _embedding_bag,
    "embedding_bag": _embedding_bag,
}
