"""The larger of two tensors (maxout), or of a tensor and a constant, element by element."""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np
from tvm import relax

from relay_int8.graph.group import Group
from relay_int8.operators.extreme import Extreme
from relay_int8.operators.operator import Array, Holds
from relay_int8.operators.pair import operand_signs


class Maximum(Extreme):
    """``max(a, b)``."""

    kind = "max"
    arithmetic = "max"

    def passes_sign(self, group: Group, known: Container[relax.Var], holds: Holds) -> bool:
        """Say whether any operand has it: one that is never negative is enough."""
        return bool(group.inputs) and any(operand_signs(group, known, holds))

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return the larger one."""
        return self.computed(group, xs, np.maximum)
