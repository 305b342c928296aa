"""Reshape, permutation, reshape and crop that are one rearrangement of an image."""

from __future__ import annotations

from collections.abc import Sequence

from relay_int8.graph.group import Group
from relay_int8.operators.move import Move
from relay_int8.operators.operator import Array


class Shuffle(Move):
    """Channel shuffle, depth to space, space to depth: see ``graph.shuffles``."""

    kind = "shuffle"

    def arguments(self, group: Group) -> tuple[int, ...]:
        """Return digits, their order, how they are joined, and where the crop begins."""
        assert group.shuffle is not None
        parts = group.shuffle
        return (*parts.digits, *parts.axes, *parts.joined, *parts.begins)

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it, images along the first axis."""
        assert group.shuffle is not None
        return group.shuffle(xs[0])
