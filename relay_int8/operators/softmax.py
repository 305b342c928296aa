"""Softmax: a float32 kernel over the last axis, whose result a quantize may join."""

from __future__ import annotations

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.operators.kernel import F32, Kernel
from relay_int8.operators.normalization import row_refusal
from relay_int8.operators.unsupported import Unsupported
from schedules.spec import Softmax as Spec


class Softmax(Unsupported):
    """Softmax over the last axis."""

    def __init__(self) -> None:
        super().__init__("nn.softmax")

    def is_non_negative(self, group: Group) -> bool:
        """Say yes: shares of one are not."""
        return True

    def float_refusal(self, group: Group) -> str | None:
        """Say which axis is not the last one."""
        dims, axis = dataflow.shape(group.root), int(group.root.attrs.axis)
        if axis % len(dims) != len(dims) - 1:
            return f"it is over axis {axis} of {len(dims)}, not the last one"
        if not isinstance(dims[-1], int):
            return "it is over the open batch"
        return row_refusal(group)

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return the kernel of the exponential that design.md has."""
        return Spec(dims=dataflow.shape(group.root), y=F32), {}
