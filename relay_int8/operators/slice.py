"""Strided slice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.operators.move import Move
from relay_int8.operators.operator import Array


class Slice(Move):
    """Every step-th element from a begin on, along each axis."""

    kind = "slice"

    def refusal(self, group: Group) -> str | None:
        """Say where a step is not positive."""
        if any(step < 1 for step in dataflow.slice_steps(group.root)[1]):
            return "it slices with a negative step"
        return None

    def arguments(self, group: Group) -> tuple[int, ...]:
        """Return begins, then steps."""
        begins, steps = dataflow.slice_steps(group.root)
        return (*begins, *steps)

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it, images along the first axis."""
        y = xs[0]
        extents = zip(
            *dataflow.slice_steps(group.root),
            dataflow.shape(group.inputs[0]),
            dataflow.shape(group.output),
            strict=True,
        )
        for axis, (begin, step, extent, size) in enumerate(extents):
            if size != extent:
                y = np.take(y, begin + step * np.arange(size), axis=axis)
        return y
