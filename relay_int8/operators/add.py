"""Sum of two tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.operators.channels import channels_of
from relay_int8.operators.operator import Array
from relay_int8.operators.pair import Pair


class Add(Pair):
    """``a + b``."""

    kind = "add"
    arithmetic = "add"

    def scaled_inputs(self, group: Group) -> Sequence[relax.Var]:
        """Return both operands where each has all channels of the sum."""
        if self.refusal(group):
            return ()
        channels = [channels_of(dataflow.shape(var)) for var in (*group.inputs, group.output)]
        return group.inputs if len(set(channels)) == 1 else ()

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return the sum."""
        return self.computed(group, xs, np.add)
