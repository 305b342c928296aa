"""Find attention in a function, with the reshapes and permutations around it.

    softmax(factor * q k' + mask) v

as exporters write it: factors on either operand, on both or on the scores; masks that are added,
computed or constant, or chosen by a constant condition; a guard against rows that are masked out
whole (``where(isnan(p), 0, p)``); heads split off and joined by reshapes and permutations; queries,
keys and values as parts of one tensor; keys and values that all heads share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.errors import UnsupportedOpError
from relay_int8.graph import dataflow
from relay_int8.graph.matrices import (
    Outer,
    Positions,
    counted,
    is_countable,
    keeps_matrices,
    outer_of,
    packed_positions,
    repeated,
    strides_of,
)
from relay_int8.graph.matrix_products import Operand, Surroundings
from relay_int8.graph.scores import Scores, constant_mask, find_scores, mask_positions
from schedules.spec import Strides

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, kw_only=True)
class Mask:
    """The mask that is added to scores: a tensor, or constant values, float32."""

    strides: Strides
    tensor: relax.Var | None = None
    values: Array | None = None


@dataclass(frozen=True, kw_only=True)
class AttentionSubgraph:
    """``softmax(factor * q k' + mask) v``; ``gain`` multiplies the result.

    ``factor`` is that of each head, float64 (heads,).
    ``root`` is the product with the values, ``y`` where it is moved to.
    """

    members: tuple[relax.Var, ...]
    root: relax.Var
    outer: Outer
    queries: int
    keys: int
    depth: int
    width: int
    q: Operand
    k: Operand
    v: Operand
    y: Operand
    mask: Mask | None
    factor: Array
    gain: float


def find_attention(around: Surroundings) -> list[AttentionSubgraph]:
    """Return the attentions of a function (in topological order); they are taken."""
    matches = []
    for var, value in around.values.items():
        if dataflow.operator(value) == "nn.softmax" and _is_last_axis(value):
            attention = _attention(around, var)
            if attention is not None:
                matches.append(attention)
                around.taken.update(attention.members)
    return matches


def _attention(around: Surroundings, softmax: relax.Var) -> AttentionSubgraph | None:
    """Return the attention around a softmax, or None."""
    behind = _weighted(around, softmax)
    scores = find_scores(around.values, around.values[softmax].args[0])
    if behind is None or scores is None or scores.product is None:
        return None
    if scores.constants and scores.tensor is not None:  # the kernel adds one mask
        return None
    core = [scores.product, *scores.members, softmax, *behind]
    if not _is_closed(around, core):
        return None
    product = behind[-1]
    q_k, p_v = around.values[scores.product], around.values[product]
    reads = (q_k.args[0], q_k.args[1], p_v.args[1])
    shapes = [dataflow.shape(value) for value in (*reads, q_k, p_v, softmax)]
    if not all(isinstance(var, relax.Var) for var in reads) or not _are_matrices(shapes):
        return None
    if len({math.prod(counted(shape)[:-2]) for shape in shapes[3:]}) > 1:
        return None
    for operands in (reads, ()):
        layout_vars = around.peeled(operands, core, factors=True)
        attention = _placed(around, scores, core, reads, layout_vars)
        if attention is not None:
            return attention
    return None


def _placed(
    around: Surroundings,
    scores: Scores,
    core: Sequence[relax.Var],
    reads: Sequence[relax.Var],
    layout_vars: set[relax.Var],
) -> AttentionSubgraph | None:
    """Return the attention with its tensors, or None where they do not lie at even steps."""
    turned, product = (False, True, False), core[-1]
    accesses = [around.read(var, layout_vars, way) for var, way in zip(reads, turned, strict=True)]
    accesses.append(around.written(product))
    values = constant_mask(scores)
    at = mask_positions(scores) if values is None else packed_positions(values)
    has_mask = values is not None or scores.tensor is not None
    shapes = [dataflow.shape(var) for var in (core[0], product)]
    wholes = (shapes[0], shapes[0], shapes[1], shapes[1])
    positions = [
        _broadcast(access.positions, dataflow.shape(var), whole)
        for access, var, whole in zip(accesses, (*reads, product), wholes, strict=True)
    ]
    positions += [at] if has_mask else []
    known = [each for each in positions if each is not None]
    if len(known) < len(positions):
        return None
    memory = [dataflow.shape(access.tensor) for access in accesses]
    outer = outer_of(shapes, memory, known)
    if outer is None:
        return None
    q, k, v, y = (
        Operand(tensor=access.tensor, strides=strides_of(outer, each))
        for access, each in zip(accesses, known, strict=False)
    )
    factor = _by_head(scores.factor, outer)
    if factor is None:
        return None
    if values is not None and not _is_known(values, outer):
        raise UnsupportedOpError(
            f"{product.name} (attention) has a mask that tells an image's windows apart, which "
            "an open batch repeats: build the network for one batch"
        )
    factors = [around.factor(var, layout_vars) for var in reads]
    members = {*layout_vars, *core, *around.until(product, accesses[-1].tensor)}
    return AttentionSubgraph(
        members=around.in_order(members),
        root=product,
        outer=outer,
        queries=int(shapes[0][-2]),
        keys=int(shapes[0][-1]),
        depth=int(dataflow.shape(reads[0])[-1]),
        width=int(shapes[1][-1]),
        q=q,
        k=k,
        v=v,
        y=y,
        mask=_mask(scores, values, outer, known[-1]) if has_mask else None,
        factor=factor * factors[0] * factors[1],
        gain=factors[2],
    )


def _is_known(values: Array, outer: Outer) -> bool:
    """Say whether constants of each matrix are known for every batch: an open one repeats them."""
    grid = values.reshape(-1, outer.heads, *values.shape[1:])
    return isinstance(outer.batch, int) or bool((grid == grid[:1]).all())


def _by_head(factor: Array, outer: Outer) -> Array | None:
    """Return the factor of each head, or None where it differs between batches too."""
    if factor.size == 1:
        return np.full(outer.heads, factor[0])
    grid = factor.reshape(-1, outer.heads)
    return np.asarray(grid[0]) if (grid == grid[0]).all() else None


def _weighted(around: Surroundings, softmax: relax.Var) -> list[relax.Var] | None:
    """Return the variables from a softmax to the product that it weighs, or None."""
    chain = _guard(around, softmax)
    while len(readers := around.readers[(chain or [softmax])[-1]]) == 1:
        before, reader = (chain or [softmax])[-1], readers[0]
        chain.append(reader)
        call = around.values[reader]
        if around.operator(reader) == "matmul":
            return chain if call.args[0].same_as(before) else None
        if not keeps_matrices(call):
            return None
    return None


def _guard(around: Surroundings, softmax: relax.Var) -> list[relax.Var]:
    """Return the operators that put zeros in place of shares that are no number; often none."""
    readers = around.readers[softmax]
    chosen = [reader for reader in readers if around.operator(reader) == "where"]
    tested = [reader for reader in readers if around.operator(reader) == "isnan"]
    if len(readers) != 2 or len(chosen) != 1 or len(tested) != 1:
        return []
    condition, nothing, _ = around.values[chosen[0]].args
    zero = dataflow.constant(nothing)
    is_guard = condition.same_as(tested[0]) and zero is not None and not zero.any()
    return [tested[0], chosen[0]] if is_guard else []


def _mask(scores: Scores, values: Array | None, outer: Outer, positions: Positions) -> Mask:
    """Return a mask with its strides; constants that repeat are kept once."""
    if values is None:
        return Mask(tensor=scores.tensor, strides=strides_of(outer, positions))
    grid = values.reshape(-1, outer.heads, *values.shape[1:])
    for axis in range(grid.ndim - 1):
        first = grid.take([0], axis)
        if np.array_equal(grid, np.broadcast_to(first, grid.shape)):
            grid = first
    grid = np.ascontiguousarray(grid)
    batch, head, row, column = (
        step // grid.itemsize if extent > 1 else 0
        for extent, step in zip(grid.shape, grid.strides, strict=True)
    )
    return Mask(values=grid, strides=(0, batch, head, row, column))


def _is_closed(around: Surroundings, core: Sequence[relax.Var]) -> bool:
    """Say whether nothing outside reads what is between the first of ``core`` and its last."""
    inside = set(core)
    return not inside & around.taken and all(
        var not in around.results and all(reader in inside for reader in around.readers[var])
        for var in core[:-1]
    )


def _is_last_axis(call: relax.Call) -> bool:
    return int(call.attrs.axis) in (-1, len(dataflow.shape(call)) - 1)


def _are_matrices(shapes: Sequence[Sequence[Any]]) -> bool:
    """Say whether all have two axes or more, at most the batch being open."""
    return all(len(shape) >= 2 and is_countable(shape) for shape in shapes)


def _broadcast(
    positions: Positions | None, own: Sequence[Any], whole: Sequence[Any]
) -> Positions | None:
    """Return positions of operands for each matrix of a product, whose heads may share them."""
    return None if positions is None else repeated(positions, own[:-2], whole[:-2])
