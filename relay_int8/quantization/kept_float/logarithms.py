"""Layers whose results a logarithm reads stay in float.

    product with weights or of two tensors -> (move | sum | difference | a * x + b | power of x)
        -> log(x), and nothing else

A logarithm shows the small as it shows the large: the powers of sound in bands of the mel scale
span six decades, of which bytes keep two, and all below are one value. So does any function that
changes as much from 1e-6 to 1e-3 as from there to 1: ``log(max(x, 1e-10))``, ``1 / x``.

Such a product is a filter of powers. The transform whose squares it adds is in float too, wherever
its signal comes from, and what is linear before that: steps of a fast Fourier transform.

    layer without bias and activation -> (move | sum | difference | a * x) -> such a product
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from tvm import relax

from relay_int8.graph.group import AFFINE, MOVES, Clip, Group, readers_of
from relay_int8.quantization.kept_float.linear_groups import (
    SUMS,
    is_linear_layer,
    is_square,
    values_at,
)

PRODUCT = "product"
LINEAR = (*MOVES, *SUMS, AFFINE, "sub", "mul", "scatter_elements")
DECADES = np.array([1e-6, 1e-3, 1.0])
SHARE = 0.25
"""Of the difference between the values at 1e-3 and 1, that between those at 1e-6 and 1e-3."""

REASON = "a logarithm, or another function of small values, reads its result: bytes would lose them"


def logarithm_reasons(groups: Sequence[Group], results: Collection[relax.Var]) -> dict[str, str]:
    """Return the layers before such functions, by name, and why they stay in float.

    Parameters
    ----------
    groups
        Of the network, in their order.
    results
        What the network returns.
    """
    small: set[relax.Var] = set()  # results of groups of whose operands small values matter
    filtered: set[relax.Var] = set()  # those of filters, before which the squares that they add do
    readers = readers_of(groups)
    reasons = {}
    for group in reversed(groups):
        behind = readers.get(group.output, [])
        if behind and group.output not in results and _leaves_small(group):
            shown = all(_shows_small(each) or each.output in small for each in behind)
            added = not shown and all(each.output in filtered for each in behind)
            is_filter = group.is_layer or group.kind == PRODUCT
            if (shown and is_filter) or (added and is_linear_layer(group)):
                reasons[group.name] = REASON
                filtered.add(group.output)
            elif (shown or added) and is_square(group):
                small.add(group.output)
            elif (shown or added) and (group.kind in LINEAR or _is_power(group)):
                (small if shown else filtered).add(group.output)
    return reasons


def _leaves_small(group: Group) -> bool:
    """Whether neither the activation of a group nor a number added to all keeps it from zero."""
    activation, bias = group.activation, group.bias
    if bias is not None and np.ptp(bias) == 0 and bias[0] > DECADES[1]:
        return False
    return activation is None or (isinstance(activation, Clip) and activation.low <= DECADES[0])


def _shows_small(group: Group) -> bool:
    """Whether a group is a function that tells small values from smaller ones."""
    values = values_at(group, DECADES)
    if values is None:
        return False
    smallest, middle, one = values
    small, large = abs(middle - smallest), abs(one - middle)
    return bool(np.isfinite(small) and small > 0 and small >= SHARE * large)


def _is_power(group: Group) -> bool:
    """Whether a group is a function that is x ** p for what is positive: a root, a square."""
    values = values_at(group, DECADES)
    if values is None or not (values > 0).all():
        return False
    smallest, middle, one = values
    return bool(np.isclose(middle / smallest, one / middle, rtol=1e-3))
