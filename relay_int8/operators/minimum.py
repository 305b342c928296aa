"""The smaller of two tensors, or of a tensor and a constant, element by element."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relay_int8.graph.group import Group
from relay_int8.operators.extreme import Extreme
from relay_int8.operators.operator import Array


class Minimum(Extreme):
    """``min(a, b)``."""

    kind = "min"
    arithmetic = "min"

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return the smaller one."""
        return self.computed(group, xs, np.minimum)
