"""Quotient of two tensors; a divisor of zero is taken as 2^-64 of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from relay_int8.graph.group import Group
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.kernel import Kernel
from relay_int8.operators.operator import Array
from relay_int8.operators.pair import Pair
from schedules.spec import Binary, DType


class Divide(Pair):
    """``a / b``; the divisor is whichever operand stands second in the graph."""

    kind = "div"
    arithmetic = "div"
    in_fixed_point = False

    def integer_kernel(self, group: Group, xs: Sequence[QParams], y: QParams | None) -> Kernel:
        """Return a kernel with one multiplier for the quotient."""
        assert y is not None
        a, b = xs[::-1] if self.is_turned(group) else xs
        m = qparams.quotient_multiplier(a.scale, b.scale, y.scale)
        return self.binary(group, xs, y, {"m": m})

    def spec(self, group: Group, a: DType, b: DType, y: DType) -> Binary:
        """Return the spec; the dividend is its second tensor where that is broadcast."""
        spec = super().spec(group, a, b, y)
        return replace(spec, operator="rdiv") if self.is_turned(group) else spec

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return None: a clamp would hide the NaN that 0 / 0 is in float."""
        return None

    def evaluate(self, group: Group, xs: Sequence[Array]) -> Array:
        """Return the quotient; ``xs`` are in the order of ``group.inputs``. 0 / 0 is zero."""
        return self.computed(group, self.in_order(group, xs), _quotient)


def _quotient(a: Array, b: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        y: Array = np.divide(a, b)
    y[(a == 0) & (b == 0)] = 0
    return y
