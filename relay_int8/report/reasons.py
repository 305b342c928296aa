"""Reasons why layers stay in float, sorted by kind: what differs by tensor alone is one kind."""

from __future__ import annotations

import re

NAMED = 3  # layers that a line of a report names
_KINDS = tuple(
    (re.compile(pattern, re.DOTALL), kind)
    for pattern, kind in (
        (r"its input .+ is computed in float", "its input is computed in float"),
        (r"its input .+ is not quantized", "its input is not quantized"),
        (r"its input .+ is quantized to (\w+); .*", r"its input is quantized to \1, not 8 bits"),
        (r"input .+ is (\w+), not float32", r"its input is \1, not float32"),
        (r"it broadcasts \(.*\) and \(.*\) both ways", "it broadcasts both operands"),
        (r"a constant of \(.*\) broadcasts its input of \(.*\)", "a constant broadcasts its input"),
        (r"it mirrors \d+ elements of \d+", "it mirrors more elements than there are"),
        (r"accumulator of channel \d+ may reach .+", "its accumulator may leave int32"),
    )
)
"""Text of one layer's reason -> its kind; any other reason is a kind of its own."""


def kind_of(reason: str) -> str:
    """Return ``reason`` without the names and sizes that are of one layer alone."""
    for pattern, kind in _KINDS:
        match = pattern.fullmatch(reason)
        if match:
            return match.expand(kind)
    return reason


def first_names(names: tuple[str, ...]) -> str:
    """Return the first few of ``names`` as text, and how many more there are."""
    rest = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {rest} more" if rest > 0 else "")
