"""How many multiplications a kernel is worth: those that meet the image, not its padding."""

from __future__ import annotations

from math import prod

from schedules.bodies.border import axes_of
from schedules.spec import Attention, Conv2d, Dense, Product, Spec


def multiplications(spec: Spec) -> int:
    """Return the multiplications of a convolution or matrix products, 0 for anything else.

    Taps in the padding are left out: a kernel may skip them, and none may count them.
    """
    if isinstance(spec, Dense):
        return int(prod((spec.rows, spec.n, spec.k)))
    if isinstance(spec, Product):
        return int(spec.batch) * spec.heads * spec.rows * spec.columns * spec.depth
    if isinstance(spec, Attention):
        scores = int(spec.batch) * spec.heads * spec.queries * spec.keys
        return scores * (spec.depth + spec.width)
    if not isinstance(spec, Conv2d):
        return 0
    rows, cols = (sum(len(axis.taps(i)) for i in range(axis.out)) for axis in axes_of(spec))
    return int(spec.batch) * spec.in_channels // spec.groups * spec.out_channels * rows * cols
