"""GroupNorm: groups of channels of an image get mean zero and variance one."""

from __future__ import annotations

from relay_int8.graph.group import Group
from relay_int8.operators.normalization import ChannelGroupNorm


class GroupNorm(ChannelGroupNorm):
    """A norm over the channels of a group and their pixels."""

    def __init__(self) -> None:
        super().__init__("nn.group_norm")

    def groups(self, group: Group) -> int:
        """Return what the operator says."""
        return int(group.root.attrs.num_groups)
