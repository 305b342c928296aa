"""InstanceNorm: each channel of an image gets mean zero and variance one."""

from __future__ import annotations

from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.operators.normalization import ChannelGroupNorm


class InstanceNorm(ChannelGroupNorm):
    """A norm over the pixels of each channel."""

    def __init__(self) -> None:
        super().__init__("nn.instance_norm")

    def groups(self, group: Group) -> int:
        """Return the channels."""
        return int(dataflow.shape(group.root)[1])
