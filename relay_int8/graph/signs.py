"""What is known about the signs of tensors, whatever the data."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.capability import refusal
from relay_int8.graph.groups import (
    INTERPOLATE,
    MOVES,
    PAIRS,
    SAMPLE,
    Clip,
    Group,
    Leaky,
    adds_values,
    pad_value,
)
from relay_int8.numerics.unary import NON_NEGATIVE, UNARY

PASSING = (*MOVES, SAMPLE, INTERPOLATE, "avg_pool2d", "concat", *PAIRS)
"""Whose results are as their inputs are, but for ``sub``."""
TYPICAL = 8.0  # activations of trained networks seldom reach further
REACH = 4.0  # a range this many times as long on one side of zero as on the other is one-sided


def non_negative(groups: Collection[Group]) -> set[relax.Var]:
    """Return the tensors that cannot be negative."""
    found: set[relax.Var] = set()
    known = partial(_passes, found=found, holds=lambda constant: bool((constant >= 0).all()))
    for group in groups:
        if isinstance(group.activation, Clip):
            positive = group.activation.low >= 0
        elif group.function is not None:
            positive = group.function.is_non_negative
        elif group.kind in PASSING:
            positive = group.activation is None and known(group)
        else:
            positive = group.kind in (*NON_NEGATIVE, "nn.softmax")
        if positive:
            found.add(group.output)
    return found


def one_sided(groups: Collection[Group], *, leaky: bool = True) -> set[relax.Var]:
    """Return the tensors that reach far on one side of zero at most.

    Those that cannot be negative are among them; so is what swish, GELU, ELU and their like give,
    and with ``leaky`` LeakyReLU and PReLU: a quarter of what the other side has, or less, where
    their arguments are between -8 and 8.
    """
    found = non_negative(groups)
    known = partial(_passes, found=found, holds=_reaches_one_side)
    for group in groups:
        if isinstance(group.activation, Leaky):
            short = leaky and float(np.abs(group.activation.slope).max()) * REACH <= 1
        elif isinstance(group.activation, Clip):
            clip = group.activation
            short = _is_short(partial(np.clip, a_min=clip.low, a_max=clip.high))
        elif group.function is not None or group.kind in UNARY:
            short = _is_short(group.function or UNARY[group.kind])
        else:
            short = group.kind in PASSING and known(group)
        if short:
            found.add(group.output)
    return found


def _passes(group: Group, found: set[relax.Var], holds: Callable[[np.ndarray], bool]) -> bool:
    """Say whether the result of a passing group is in ``found`` as its operands are.

    ``holds`` says of a constant among them whether it is as the tensors in ``found``.
    """
    if not group.inputs or (group.kind == SAMPLE and refusal(group) is not None):
        return False
    factors = [*group.inputs, *group.floats[1:]]  # a mask, not the offsets before it
    known = [var in found for var in factors]
    known += [holds(constant) for constant in _constants(group)]
    return any(known) if group.kind == "max" else all(known) and group.kind != "sub"


def _constants(group: Group) -> list[np.ndarray]:
    """Return the constants that a passing group mixes with its inputs."""
    if adds_values(group):
        return [np.array(pad_value(group))]
    if group.kind not in (*PAIRS, "concat"):
        return []
    arrays = map(dataflow.constant, dataflow.arguments(group.root))
    return [array for array in arrays if array is not None]


def _is_short(function: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Say whether the values of a function of real numbers are one-sided."""
    with np.errstate(all="ignore"):
        return _reaches_one_side(function(np.linspace(-TYPICAL, TYPICAL, 4097)))


def _reaches_one_side(values: np.ndarray) -> bool:
    if not np.isfinite(values).all():
        return False
    below, above = max(-float(values.min()), 0.0), max(float(values.max()), 0.0)
    return min(below, above) * REACH <= max(below, above)
