"""Which axis of a tensor holds channels, and whether an operator keeps them."""

from __future__ import annotations

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group


def channels_of(shape: tuple[int, ...]) -> int | None:
    """Return how many channels a tensor with rows in front has: those of an image, or the last."""
    if len(shape) < 2:
        return None
    return shape[1] if len(shape) == 4 else shape[-1]


def keeps_channels(group: Group) -> bool:
    """Say whether input and result of a group have the same channels on the same axis."""
    if not group.inputs:  # what it reads is a constant
        return False
    before, after = dataflow.shape(group.inputs[0]), dataflow.shape(group.output)
    channels = channels_of(before)
    return channels is not None and channels == channels_of(after) and len(before) == len(after)
