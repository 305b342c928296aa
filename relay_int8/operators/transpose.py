"""Permutation of axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.operators.move import Move
from relay_int8.operators.operator import Array


class Transpose(Move):
    """Permutation of the axes."""

    kind = "transpose"

    def arguments(self, group: Group) -> tuple[int, ...]:
        """Return the axes."""
        axes = group.root.attrs.axes
        rank = len(dataflow.shape(group.root))
        return tuple(map(int, axes)) if axes else tuple(reversed(range(rank)))

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it, images along the first axis."""
        return np.transpose(xs[0], _positive(self.arguments(group)))

    def is_batched(self, group: Group) -> bool:
        """Say whether the first axis stays the first."""
        return _positive(self.arguments(group))[0] == 0 and super().is_batched(group)


def _positive(axes: tuple[int, ...]) -> list[int]:
    return [axis % len(axes) for axis in axes]
