"""Powers of whose sums a root is taken stay in float: lengths of vectors, magnitudes of spectra.

    x ** p, p >= 1.5 -> (move | sum | mean | a * x + b), any of them -> root, and nothing else

A square has twice the digits of what it is made of: in bytes, all values below a twentieth of the
largest have one square, zero. A root would show them again as they were. Networks read spectra of
sound as magnitudes like this. Networks of image retrieval take the root of a mean of cubes (GeM,
Radenovic et al. 2019): of these all values below a sixth of the largest are zero.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from tvm import relax

from relay_int8.graph.group import AFFINE, MOVES, Group, readers_of
from relay_int8.quantization.kept_float.linear_groups import (
    SUMS,
    is_multiple,
    is_square,
    values_at,
)

BETWEEN = (*MOVES, *SUMS, AFFINE)
POINTS = np.array([1e-3, 1e-3**0.5, 1.0])
ROOTS = (0.1, 0.75)
"""Exponents of roots, from and to."""

LEAST_POWER = 1.5

REASON = "a root of sums of these powers is read: bytes would lose the powers of small values"


def magnitude_reasons(groups: Sequence[Group], results: Collection[relax.Var]) -> dict[str, str]:
    """Return such powers by name, and why they stay in float.

    Parameters
    ----------
    groups
        Of the network, in their order.
    results
        What the network returns.
    """
    rooted: set[relax.Var] = set()
    readers = readers_of(groups)
    reasons = {}
    for group in reversed(groups):
        behind = [] if group.output in results else readers.get(group.output, [])
        if behind and all(_is_root(each) or each.output in rooted for each in behind):
            if _is_power(group):
                reasons[group.name] = REASON
            elif group.activation is None and (group.kind in BETWEEN or is_multiple(group)):
                rooted.add(group.output)
    return reasons


def _is_power(group: Group) -> bool:
    """Whether a group is a square, or grows with x > 0 as a power that is as steep does."""
    if is_square(group):
        return True
    exponent = None if group.activation is not None else _exponent(group)
    return exponent is not None and exponent >= LEAST_POWER


def _is_root(group: Group) -> bool:
    """Whether a group is a function that grows as a power below 1 does, nearly."""
    exponent = _exponent(group)
    return exponent is not None and ROOTS[0] <= exponent <= ROOTS[1]


def _exponent(group: Group) -> float | None:
    """Return the exponent of the power that a function is for x > 0, nearly; None if it is none."""
    values = values_at(group, POINTS)
    if values is None or not (np.isfinite(values).all() and (values > 0).all()):
        return None
    low, middle, high = values
    is_power = np.isclose(middle, (low * high) ** 0.5, rtol=0.2)  # a small number may be added
    return float(np.log(high / low) / np.log(POINTS[-1] / POINTS[0])) if is_power else None
