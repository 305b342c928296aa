"""Filters of which local variances are made stay in float.

    x, y -> product -> filter ------------+
    x, y -> filter, each -> product ------+- difference

The mean of a product less the product of the means is a variance, or a covariance: a small
difference of large numbers. In bytes it is rounded to steps of these, and where there is little
contrast nothing is left of it, not even its sign. Guided filters divide by it, as does structural
similarity (Wang et al. 2004). The filters are convolutions or poolings, the same on both sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import MOVES, Group
from relay_int8.quantization.kept_float.linear_groups import (
    is_linear_layer,
    is_multiple,
    is_square,
)

REASON = (
    "a variance is computed of its results, a small difference of large numbers: "
    "bytes would lose it"
)


def variance_reasons(groups: Sequence[Group]) -> dict[str, str]:
    """Return such filters by name, and why they stay in float."""
    made = {group.output: group for group in groups}
    reasons: dict[str, str] = {}
    for group in groups:
        if group.kind != "sub" or len(group.inputs) != 2:
            continue
        for mean, other in permutations(group.inputs):
            product, filters = _source(made, mean)
            means = made.get(other)
            if not filters or means is None or not (_is_product(product) and _is_product(means)):
                continue
            sides = [_source(made, factor)[1] for factor in means.inputs]
            if all(_are_same(filters, side) for side in sides):
                named = (each.name for side in (filters, *sides) for each in side)
                reasons |= dict.fromkeys(named, REASON)
    return reasons


def _source(made: Mapping[relax.Var, Group], var: relax.Var) -> tuple[Group | None, list[Group]]:
    """Return what moves and filters make a tensor of, if that is computed, and the filters."""
    filters = []
    while (group := made.get(var)) is not None:
        if _is_filter(group):
            filters.append(group)
        elif not _passes(group):
            break
        var = group.inputs[0]
    return group, filters


def _passes(group: Group) -> bool:
    """Whether a group moves one tensor, or multiplies or divides it by constants."""
    if len(group.inputs) != 1 or group.activation is not None:
        return False
    is_dividend = group.kind == "div" and group.inputs[0].same_as(group.root.args[0])
    return group.kind in (*MOVES, "mul") or is_dividend or is_multiple(group)


def _is_filter(group: Group) -> bool:
    return is_linear_layer(group) or (group.kind == "avg_pool2d" and group.activation is None)


def _is_product(group: Group | None) -> bool:
    """Whether a group is a product of two tensors, or a square."""
    if group is None or group.activation is not None or not group.inputs:
        return False
    if dataflow.operator(group.root) == "power":
        exponent = dataflow.constant(group.root.args[1])
        return exponent is not None and bool((exponent == 2).all())
    return (group.kind == "mul" and len(group.inputs) == 2) or is_square(group)


def _are_same(filters: Sequence[Group], others: Sequence[Group]) -> bool:
    if [group.kind for group in filters] != [group.kind for group in others]:
        return False
    return all(
        not a.is_layer or np.array_equal(a.weight_rows, b.weight_rows)
        for a, b in zip(filters, others, strict=True)
    )
