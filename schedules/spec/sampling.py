"""Sampling of an image at coordinates of another tensor: half of a deformable convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from schedules.spec.operator_spec import (
    DType,
    OperatorSpec,
    Padding,
    Pair,
    Shape,
    Size,
    window_positions,
)


@dataclass(frozen=True, kw_only=True)
class Sample2d(OperatorSpec):
    """What each tap of a deformable convolution sees, as channels for a convolution of 1x1.

    y channel ``(group * taps + tap) * (channels / groups) + channel within group``, taps row major.
    Channels lie in ``parts``, each with offsets of its own: offset float32 (n, 2 * taps * parts,
    oh, ow), channels part, tap, (row, column); mask float32 (n, taps * parts, oh, ow) if masked.

    Along each axis, in float32: ``p = float32(out * stride - before + tap * dilation) + offset``;
    p counts as -1 (or NaN does) unless ``-1 < p < size``, with rim "edge" unless ``0 <= p < size``,
    when ``p = min(p, size - 1)``; ``f = floor(p)``, ``l = p - f``. The pixel f weighs
    ``a0 = 1 - l``, the pixel f + 1 ``a1 = l``, those outside of the image 0. A corner (i, j) weighs
    ``w[i, j] = a[i] * b[j]``, rows times columns, ``* mask``, ``* m``, in that order.

    Integer x: ``t = fma(w11, c11, fma(w10, c10, fma(w01, c01, w00 * c00)))`` of
    ``c = float32(x - z_x)``, rounded and clamped. float32 x: ``y = t`` of ``c = x``.
    Integer params: m float32 (1,) = s_x / s_y, z int32 (2,) = z_x, z_y, clamp float32 (2,).
    """

    kind: ClassVar[str] = "sample2d"
    batch: Size
    channels: int
    height: int
    width: int
    kernel: Pair
    strides: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1
    parts: int = 1
    masked: bool = False
    rim: Literal["zero", "edge"] = "zero"
    x: DType
    y: DType

    @property
    def taps(self) -> int:
        """Number of samples of one position of y."""
        return self.kernel[0] * self.kernel[1]

    @property
    def out_size(self) -> Pair:
        """Height and width of the output."""
        size = (self.height, self.width)
        return window_positions(size, self.kernel, self.strides, self.dilation, self.padding)

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return ("x", "offset", *(("mask",) if self.masked else ()))

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return () if self.x == "float32" else ("m", "z", "clamp")

    def shape(self, name: str) -> Shape:
        """Logical shape of activation ``name`` ("x", "offset", "mask" or "y")."""
        if name == "x":
            return (self.batch, self.channels, self.height, self.width)
        per_tap = {"offset": 2 * self.parts, "mask": self.parts, "y": self.channels}[name]
        return (self.batch, per_tap * self.taps, *self.out_size)

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return {"x": self.x, "y": self.y}.get(name, "float32")
