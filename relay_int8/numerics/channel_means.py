"""Names of the means of a tensor's channels."""

from __future__ import annotations

LAST_AXIS = ":last axis"
"""Follows a tensor's name in that of its means where channels are the last axis of four."""


def averaged(means: str) -> tuple[str, bool]:
    """Return the tensor that ``means`` are of, and whether its channels are the last axis of four.

    A product reads the channels of a tensor along its last axis, a convolution those of an image
    along axis 1; a tensor of four axes may have both kinds of readers.
    """
    return means.removesuffix(LAST_AXIS), means.endswith(LAST_AXIS)
