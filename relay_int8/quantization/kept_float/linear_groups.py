"""Predicates on groups, for the rules on powers and spectra: linear, a square, a power."""

from __future__ import annotations

import numpy as np

from relay_int8.graph.group import Group
from relay_int8.operators.registry import operator_of

SUMS = ("add", "sum", "mean", "avg_pool2d")
"""Kinds of the sums of two tensors, and of a tensor along axes; those of pixels are pools."""

SAMPLES = np.array([-3.0, -1.0, -0.25, 0.5, 2.0])


def is_linear_layer(group: Group) -> bool:
    """Whether a group is a product with weights, without residual, activation and bias."""
    plain = group.is_layer and group.activation is None and not group.residual
    return plain and group.weight is not None and not group.bias_or_zero.any()


def values_at(group: Group, points: np.ndarray) -> np.ndarray | None:
    """Return what a function of one tensor makes of some points; None for other groups."""
    function = operator_of(group).function(group)
    if function is None:
        return None
    with np.errstate(all="ignore"):
        return np.asarray(function(points))


def samples(group: Group) -> np.ndarray | None:
    """Return the values at :data:`SAMPLES` of a function that no activation follows, or None."""
    return None if group.activation is not None else values_at(group, SAMPLES)


def is_multiple(group: Group) -> bool:
    """Whether a group is a number above zero times x."""
    values = samples(group)
    if values is None or not values[-1] > 0:
        return False
    return np.allclose(values, values[-1] / SAMPLES[-1] * SAMPLES, rtol=1e-6)


def is_square(group: Group) -> bool:
    """Whether a group is x * x, or that times a number."""
    if group.kind == "mul":
        return len(group.inputs) == 2 and group.inputs[0].same_as(group.inputs[1])
    return are_powers(samples(group), 2.0)


def are_powers(values: np.ndarray | None, exponent: float) -> bool:
    """Whether values at the samples are those of a power of abs(x), times a positive number."""
    if values is None:
        return False
    powers = np.abs(SAMPLES) ** exponent
    return bool(values[1] > 0 and np.allclose(values, values[1] * powers, rtol=1e-6))
