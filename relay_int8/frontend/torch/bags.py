"""PyTorch's bags of embeddings: rows of a table, of which each bag adds up some."""

from __future__ import annotations

import itertools

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.indexing import taken
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import constant, shape

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
    if step.integer("padding_idx", -1) >= 0:
        raise NotImplementedError("rows that do not count (padding_idx)")
    rows = step.emit("rows", taken(step, table, indices, 0))
    weights = step.optional_tensor("per_sample_weights")
    if weights is not None:
        column = step.emit("column", relax.op.expand_dims(weights, 1))
        rows = step.emit("weighted", relax.op.multiply(rows, column))
    bounds = _bounds(step, shape(indices)[0])
    sizes = np.diff(bounds)
    if (sizes < 1).any():
        raise NotImplementedError("an empty bag")
    if (sizes == sizes[0]).all():
        apart = (len(sizes), int(sizes[0]), shape(table)[1])
        return [COMBINE[mode](step.emit("bags", relax.op.reshape(rows, apart)), 1)]
    bags = []
    for begin, end in itertools.pairwise(bounds):
        bag = step.emit("bag", relax.op.strided_slice(rows, [0], [int(begin)], [int(end)]))
        bags.append(step.emit("combined", COMBINE[mode](bag, 0, keepdims=True)))
    return [relax.op.concat(bags, 0)]


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
