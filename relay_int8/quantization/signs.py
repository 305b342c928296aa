"""The signs of tensors that follow from the operators, whatever the data."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

import numpy as np
from tvm import relax

from relay_int8.graph.group import Clip, Group, Leaky, Smooth
from relay_int8.operators.registry import operator_of

TYPICAL = 8.0  # magnitude that activations of trained networks seldom exceed
REACH = 4.0  # a range this many times as long on one side of zero as on the other is one-sided


def non_negative(groups: Collection[Group]) -> set[relax.Var]:
    """Return the tensors that cannot be negative."""
    known: set[relax.Var] = set()
    for group in groups:
        if isinstance(group.activation, Clip):
            positive = group.activation.low >= 0
        elif isinstance(group.activation, Smooth):
            positive = group.activation.is_non_negative
        elif isinstance(group.activation, Leaky):
            positive = not group.activation.slope.any()
        else:
            record = operator_of(group)
            positive = record.is_non_negative(group) or (
                group.activation is None and record.passes_sign(group, known, _is_never_negative)
            )
        if group.activation is not None and group.ends_in_sum:
            positive = positive and group.inputs[-1] in known
        if positive:
            known.add(group.output)
    return known


def one_sided(groups: Collection[Group], *, leaky: bool = True) -> set[relax.Var]:
    """Return the tensors that reach far on one side of zero at most.

    Those that cannot be negative are among them; so is what swish, GELU, ELU and their like give,
    and with ``leaky`` LeakyReLU and PReLU: a quarter of what the other side has, or less, where
    their arguments are between -8 and 8.
    """
    known = non_negative(groups)
    for group in groups:
        record = operator_of(group)
        function = record.function(group)
        if isinstance(group.activation, Leaky):
            short = leaky and float(np.abs(group.activation.slope).max()) * REACH <= 1
        elif isinstance(group.activation, Clip):
            clip = group.activation
            short = _is_short(partial(np.clip, a_min=clip.low, a_max=clip.high))
        elif isinstance(group.activation, Smooth):
            short = _is_short(group.activation.function)
        elif function is not None:
            short = _is_short(function)
        else:
            short = record.passes_sign(group, known, _reaches_one_side)
        if group.activation is not None and group.ends_in_sum:
            short = short and group.inputs[-1] in known
        if short:
            known.add(group.output)
    return known


def _is_never_negative(constant: np.ndarray) -> bool:
    return bool((constant >= 0).all())


def _is_short(function: Callable[[np.ndarray], np.ndarray]) -> bool:
    """Say whether the values of a function of real numbers are one-sided."""
    with np.errstate(all="ignore"):
        return _reaches_one_side(function(np.linspace(-TYPICAL, TYPICAL, 4097)))


def _reaches_one_side(values: np.ndarray) -> bool:
    if not np.isfinite(values).all():
        return False
    below, above = max(-float(values.min()), 0.0), max(float(values.max()), 0.0)
    return min(below, above) * REACH <= max(below, above)
