"""Softmax: float32 for now, but what it gives is never negative."""

from __future__ import annotations

from relay_int8.graph.groups import Group
from relay_int8.operators.unsupported import Unsupported


class Softmax(Unsupported):
    """Shares of one."""

    def __init__(self) -> None:
        super().__init__("nn.softmax")

    def is_non_negative(self, group: Group) -> bool:
        """Say yes: shares of one are not."""
        return True
