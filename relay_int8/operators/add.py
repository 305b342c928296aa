"""Sum of two tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relay_int8.graph.group import Group
from relay_int8.operators.operator import Array
from relay_int8.operators.pair import Pair


class Add(Pair):
    """``a + b``."""

    kind = "add"
    arithmetic = "add"

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return the sum."""
        return self.computed(group, xs, np.add)
