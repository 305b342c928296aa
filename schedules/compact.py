"""Targets on which weights take no more memory than they must, by a key among TVM's keys."""

from __future__ import annotations

from tvm.target import Target

COMPACT = "compact"


def is_compact(target: Target) -> bool:
    """Whether weights are to take no more memory than they must."""
    return COMPACT in target.keys
