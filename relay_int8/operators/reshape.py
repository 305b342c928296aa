"""Reshape: the same elements in another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.operators.channels import channels_of
from relay_int8.operators.images import tail
from relay_int8.operators.move import Move
from relay_int8.operators.operator import Array


class Reshape(Move):
    """Another shape for elements in the same order."""

    kind = "reshape"

    def passes_factors(self, group: Group) -> bool:
        """Say whether rows and channels are all there is: then no element changes its channel."""
        before, after = dataflow.shape(group.inputs[0]), dataflow.shape(group.output)
        channels = channels_of(before)
        if channels is None or channels != channels_of(after):
            return False
        rows = before[0]
        return after[0] == rows and math.prod(before) == rows * channels

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it image by image."""
        return xs[0].reshape(len(xs[0]), *tail(dataflow.shape(group.output)))

    def is_batched(self, group: Group) -> bool:
        """Say yes: each image is reshaped by itself."""
        return True
