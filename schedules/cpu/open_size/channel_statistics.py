"""Layouts and sizes of the kernels of channel statistics: images of any size and layout."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from tvm import tirx
from tvm.tirx import Expr

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
    dims = (1, blocks, height, width, *([block] if block else []))
    opened = type(spec)(dims=dims, channels=(channels,))
    return opened, Layouts(inputs=(ROW,), output=ROW)


class Memory(NamedTuple):
    """What a kernel reads: blocks of channels, each with its positions, each with lanes."""

    shape: tuple[Any, ...]
    blocks: Expr
    positions: Expr
    lanes: Expr
    channels: Expr


def memory(spec: ChannelExtremes | ChannelMeans) -> Memory:
    """Return the extents of a spec that :func:`general` gave."""
    sizes: tuple[Any, ...] = spec.dims
    _, blocks, height, width, *block_size = sizes
    (channels,) = spec.channels
    return Memory(
        shape=(_int64(1), blocks, height, width, *map(_int64, block_size)),
        blocks=blocks,
        positions=height * width,
        lanes=_int64(block_size[0] if block_size else 1),
        channels=channels,
    )


def _int64(value: int) -> Expr:
    return tirx.const(value, "int64")
