"""Statistics of activations, for calibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from schedules.spec.operator_spec import OperatorSpec, Shape

MAGNITUDE = 0x7FFFFFFF
"""The bits of a float32 without its sign."""
SIGNED = -1
"""All bits."""


@dataclass(frozen=True, kw_only=True)
class ChannelMeans(OperatorSpec):
    """The mean of each channel of a float32 image (1, c, h, w), for calibration.

    y float32 (c,): the float32 sum of a channel, which ascends over the positions, times m.
    Where ``channels`` are given, dims are those of the image in memory, (1, blocks, h, w, lanes) or
    (1, c, h, w), and y has that many: channel ``block * lanes + lane`` is one lane of a block.
    Params: m float32 (1,), one over the number of positions.
    """

    kind: ClassVar[str] = "channel_means"
    dims: Shape
    channels: Shape = ()

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("m",)

    def shape(self, name: str) -> Shape:
        """Logical shape of activation ``name`` ("x" or "y")."""
        return self.dims if name == "x" else self.channels or (self.dims[1],)

    def dtype(self, name: str) -> str:
        """Element type of every activation."""
        return "float32"


@dataclass(frozen=True, kw_only=True)
class ChannelExtremes(OperatorSpec):
    """The least and the greatest value of each channel of a float32 image (1, c, h, w).

    y float32 (2, c): least values, then greatest. Where ``channels`` are given, dims are those of
    the image in memory, as of :class:`ChannelMeans`. Values that are NaN are not promised to count.
    """

    kind: ClassVar[str] = "channel_extremes"
    dims: Shape
    channels: Shape = ()

    def shape(self, name: str) -> Shape:
        """Logical shape of activation ``name`` ("x" or "y")."""
        return self.dims if name == "x" else (2, *(self.channels or self.dims[1:2]))

    def dtype(self, name: str) -> str:
        """Element type of every activation."""
        return "float32"


@dataclass(frozen=True, kw_only=True)
class Observe(OperatorSpec):
    """A statistic of a float32 activation, for calibration.

    Lanes past the last channel are left out.

    range: y float32 (3,) = min, max, number of values that are not finite (those are left out).
    histogram: y int32 (bins,); ``bin = clip(int((v - low) * inverse), 0, bins - 1)`` in float32,
    v being x whose bits are those of ``mask`` too: ``MAGNITUDE`` leaves the sign out. Values that
    are not finite are left out. Where inverse is zero nothing is counted, and no time taken.
    Params: none for range; low float32 (1,), inverse float32 (1,) (1 / bin width), mask int32 (1,)
    for histogram.
    """

    kind: ClassVar[str] = "observe"
    statistic: Literal["range", "histogram"]
    dims: Shape
    bins: int = 0

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("low", "inverse", "mask") if self.statistic == "histogram" else ()

    def shape(self, name: str) -> Shape:
        """Logical shape of activation ``name`` ("x" or "y")."""
        if name == "x":
            return self.dims
        return (self.bins,) if self.statistic == "histogram" else (3,)

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return "int32" if name == "y" and self.statistic == "histogram" else "float32"
