"""Difference of two tensors: a sum in which the subtrahend's multiplier is negative."""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np
from tvm import relax

from relay_int8.graph.group import Group
from relay_int8.operators.kernel import Kernel
from relay_int8.operators.operator import Array, Holds
from relay_int8.operators.pair import Pair


class Subtract(Pair):
    """``a - b``; the subtrahend is whichever operand stands second in the graph."""

    kind = "sub"
    arithmetic = "add"

    def sign(self, group: Group, operand: relax.Var) -> int:
        """Return -1 for the subtrahend."""
        return -1 if operand.same_as(group.root.args[1]) else 1

    def passes_sign(self, group: Group, known: Container[relax.Var], holds: Holds) -> bool:
        """Say no: a difference may have any sign."""
        return False

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return None: the float32 kernel has no signs of operands."""
        return None

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return the difference; ``xs`` are in the order of ``group.inputs``."""
        return self.computed(group, self.in_order(group, xs), np.subtract)
