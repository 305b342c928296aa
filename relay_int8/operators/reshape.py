"""Reshape: the same elements in another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.operators.channels import channels_of
from relay_int8.operators.images import tail
from relay_int8.operators.move import Move
from relay_int8.operators.operator import Array


class Reshape(Move):
    """Another shape for elements in the same order."""

    kind = "reshape"

    def scaled_inputs(self, group: Group) -> Sequence[relax.Var]:
        """Return its input where rows and channels are all there is: no channel is split then."""
        before, after = dataflow.shape(group.inputs[0]), dataflow.shape(group.output)
        channels, rows = channels_of(before), before[:1]
        if channels is None or channels != channels_of(after) or after[:1] != rows:
            return ()
        return group.inputs if math.prod(before) == rows[0] * channels else ()

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return it image by image."""
        return xs[0].reshape(len(xs[0]), *tail(dataflow.shape(group.output)))

    def is_batched(self, group: Group) -> bool:
        """Say yes: each image is reshaped by itself."""
        return True
