"""What kernels of statistics over channels share: they take images of any size and layout."""

from __future__ import annotations

from typing import TypeVar

from tvm import tirx

from schedules.layout import NHWC, ROW
from schedules.spec import ChannelExtremes, ChannelMeans
from schedules.template import Layouts

Statistic = TypeVar("Statistic", ChannelExtremes, ChannelMeans)


def layouts(spec: ChannelExtremes | ChannelMeans, wanted: Layouts) -> Layouts:
    """Take images in blocks of channels, or row major, where a block is a channel."""
    (x,) = wanted.inputs
    return Layouts(inputs=(ROW if x == NHWC else x,), output=ROW)


def general(spec: Statistic, layouts: Layouts) -> tuple[Statistic, Layouts]:
    """Return the kernel for images of any size: a network has dozens of them."""
    blocks, height, width, channels = (
        tirx.Var(name, "int64") for name in ("blocks", "height", "width", "channels")
    )
    block: int = layouts.inputs[0].block
    memory = (1, blocks, height, width, *([block] if block else []))
    opened = type(spec)(dims=memory, channels=(channels,))
    return opened, Layouts(inputs=(ROW,), output=ROW)
