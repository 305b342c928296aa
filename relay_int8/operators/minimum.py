"""The smaller of two tensors, element by element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relay_int8.graph.groups import Group
from relay_int8.operators.operator import Array
from relay_int8.operators.pair import Pair


class Minimum(Pair):
    """``min(a, b)``."""

    kind = "min"
    arithmetic = "min"

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return the smaller one."""
        return self.computed(group, xs, np.minimum)
