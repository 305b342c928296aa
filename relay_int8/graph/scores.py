"""The scores of an attention: what lies between the product of queries and keys, and the softmax.

factors of all or of each head, masks that are added (computed or constant), a constant condition,
reshapes of windows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.matrices import Positions, broadcast_to, counted, is_countable, keeps_matrices
from relay_int8.graph.matrix_products import scalar_factor

Array = np.ndarray[Any, np.dtype[Any]]
LEAST_MASK = -1e4  # score; a condition that puts it or less in place of another one masks that out
NEAR = 6  # greatest number of operators between a product and its softmax


@dataclass
class Scores:
    """``factor * product + constants + tensor``.

    ``factor`` is of all matrices, or one of each, (outer,). ``constants`` are (outer, rows,
    columns) each; ``added_to`` is the shape that ``tensor`` is broadcast to. ``members`` lead from
    the softmax back to the product, both ends left out.
    """

    members: list[relax.Var] = field(default_factory=list)
    product: relax.Var | None = None
    factor: Array = field(default_factory=lambda: np.ones(1))
    constants: list[Array] = field(default_factory=list)
    tensor: relax.Var | None = None
    added_to: Sequence[Any] = ()


def find_scores(values: Mapping[relax.Var, relax.Expr], operand: relax.Expr) -> Scores | None:
    """Return what leads to the operand of a softmax from a product, or None."""
    scores, var = Scores(), operand
    while var in values:
        call, operator = values[var], dataflow.operator(values[var])
        if operator == "matmul":
            scores.product = var
            return scores
        scores.members.append(var)
        factor = _factor(call)
        if keeps_matrices(call):
            var = call.args[0]
        elif factor is not None:
            scores.factor = scores.factor * factor
            var = call.args[0]
        elif operator == "add":
            var = _masked(scores, call, values)
        elif operator == "where":
            var = _chosen(scores, call)
        else:
            return None
    return None


def mask_positions(scores: Scores) -> Positions | None:
    """Return where the matrices of the computed mask lie, or None where it cannot be said."""
    mask = scores.tensor
    if mask is None or scores.constants or dataflow.dtype(mask) != "float32":
        return None
    if not is_countable(dataflow.shape(mask)):
        return None
    return broadcast_to(mask, scores.added_to)


def constant_mask(scores: Scores) -> Array | None:
    """Return the sum of the constant masks, float32 (outer, rows, columns), or None without one."""
    if not scores.constants:
        return None
    return np.asarray(np.sum(scores.constants, axis=0, dtype=np.float64), np.float32)


def _masked(
    scores: Scores, call: relax.Call, values: Mapping[relax.Var, relax.Expr]
) -> relax.Expr | None:
    """Note what an addition adds to scores; return the scores."""
    shape = dataflow.shape(call)
    for score, other in (call.args, reversed(call.args)):
        array = dataflow.constant(other)
        if array is not None and array.dtype == np.float32 and dataflow.shape(score) == shape:
            scores.constants.append(_scaled(_spread(array, shape), scores.factor))
            return score
        if array is not None or scores.tensor is not None or (scores.factor != 1).any():
            continue
        if is_near_product(score, values) and not is_near_product(other, values):
            scores.tensor, scores.added_to = other, shape
            return score if dataflow.shape(score) == shape else None
    return None


def _chosen(scores: Scores, call: relax.Call) -> relax.Expr | None:
    """Note the constant condition that masks scores; return the scores."""
    condition, *choices = call.args
    keeps = dataflow.constant(condition)
    if keeps is None:
        return None
    for is_kept, score, other in ((keeps, *choices), (~keeps, *reversed(choices))):
        array = dataflow.constant(other)
        if array is not None and array.size == 1 and float(array.reshape(())) <= LEAST_MASK:
            mask = np.where(is_kept, np.float32(0), np.float32(array.reshape(())))
            scores.constants.append(_scaled(_spread(mask, dataflow.shape(call)), scores.factor))
            return score
    return None


def is_near_product(var: relax.Expr, values: Mapping[relax.Var, relax.Expr]) -> bool:
    """Say whether a product of two activations is a few operators before ``var``."""
    for _ in range(NEAR):
        if var not in values:
            return False
        call, operator = values[var], dataflow.operator(values[var])
        if operator == "matmul":
            return all(isinstance(argument, relax.Var) for argument in call.args)
        if not keeps_matrices(call) and operator not in ("add", "multiply", "divide"):
            return False
        var = next((arg for arg in call.args if isinstance(arg, relax.Var)), None)
    return False


def _factor(call: relax.Call) -> Array | None:
    """Return by what a call multiplies scores: one number, or one for each matrix, (outer,)."""
    scalar = scalar_factor(call)
    if scalar is not None:
        return np.full(1, scalar)
    if dataflow.operator(call) != "multiply" or not isinstance(call.args[0], relax.Var):
        return None
    array, dims = dataflow.constant(call.args[1]), counted(dataflow.shape(call))
    if array is None or not 2 <= array.ndim <= len(dims) or array.shape[-2:] != (1, 1):
        return None
    if not (np.isfinite(array) & (array > 0)).all():
        return None
    each = np.broadcast_to(array.astype(np.float64), (*dims[:-2], 1, 1))
    return np.asarray(each.reshape(-1))


def _scaled(constants: Array, factor: Array) -> Array:
    """Return constants of each matrix, multiplied by its factor in float32."""
    return np.asarray(constants * factor.astype(np.float32).reshape(-1, 1, 1))


def _spread(array: Array, shape: Sequence[Any]) -> Array:
    """Return constants for each matrix: (outer, rows, columns)."""
    dims = counted(shape)
    return np.broadcast_to(array, dims).reshape(-1, *dims[-2:])
