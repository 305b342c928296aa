"""Softmax: a float32 kernel over one axis, whose result a quantize may join."""

from __future__ import annotations

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.operators.kernel import F32, Kernel
from relay_int8.operators.normalization import row_refusal
from relay_int8.operators.unsupported import Unsupported
from schedules.spec import Softmax as Spec


class Softmax(Unsupported):
    """Softmax over one axis."""

    def __init__(self) -> None:
        super().__init__("nn.softmax")

    def is_non_negative(self, group: Group) -> bool:
        """Say yes: shares of one are not."""
        return True

    def float_refusal(self, group: Group) -> str | None:
        """Say that it is over the open batch."""
        if not isinstance(dataflow.shape(group.root)[int(group.root.attrs.axis)], int):
            return "it is over the open batch"
        return row_refusal(group)

    def float_kernel(self, group: Group) -> Kernel | None:
        """Return the kernel of the exponential that design.md has."""
        dims, axis = dataflow.shape(group.root), int(group.root.attrs.axis)
        return Spec(dims=dims, axis=axis % len(dims) - len(dims), y=F32), {}
