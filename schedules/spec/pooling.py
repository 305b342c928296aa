"""Max and average pooling of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from schedules.spec.operator_spec import DType, Pair, Shape, Size
from schedules.spec.requantizing import Requantizing


@dataclass(frozen=True, kw_only=True)
class Pool2d(Requantizing):
    """Max or average pooling; global pooling is a kernel of the input's size.

    max: the largest of the window; padding never wins. x and y have one type and one scale. Floats
    of padding alone give the lowest float32, as then do minus infinities beside padding.
    avg, integer: ``requantize(sum (x - z_x), m[oh, ow])``, padding adds zero.
    avg, float32: ``sum x * m``.

    ``out_size`` is given, so that ceil_mode is the caller's business; windows may hang over the
    bottom and right edges. Params: none for max; avg integer: m float32 (oh, ow), z int32 (2,) =
    z_x, z_y, clamp float32 (2,); fixed-point also shift int32 (oh, ow); avg float32: m float32
    (oh, ow).
    """

    kind: ClassVar[str] = "pool2d"
    reduce: Literal["max", "avg"]
    batch: Size
    channels: int
    height: int
    width: int
    out_size: Pair
    kernel: Pair
    strides: Pair
    dilation: Pair = (1, 1)
    padding: Pair  # top, left; the other sides follow from out_size
    x: DType
    y: DType

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        if self.reduce == "max":
            return ()
        return ("m",) if self.x == "float32" else (*self.scaled_by("m"), "z", "clamp")

    def shape(self, name: str) -> Shape:
        """Logical shape of activation ``name`` ("x" or "y")."""
        size = (self.height, self.width) if name == "x" else self.out_size
        return (self.batch, self.channels, *size)
