"""Operators without an integer form."""

from __future__ import annotations

from relay_int8.graph.group import Group
from relay_int8.operators.operator import Operator


class Unsupported(Operator):
    """The record of every kind that has no record of its own."""

    def __init__(self, kind: str) -> None:
        self.kind = kind  # type: ignore[misc]

    def refusal(self, group: Group) -> str | None:
        """Say that there is none."""
        return f"{self.kind} has no integer form"
