"""Bilinear resize of an image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schedules.spec.operator_spec import Pair, QType, Shape, Size
from schedules.spec.requantizing import Requantizing

WEIGHT_BITS = 11
"""Of the weight of a row or a column; two of them and an 8-bit difference fill int32."""


@dataclass(frozen=True, kw_only=True)
class Interpolate(Requantizing):
    """Bilinear resize: ``requantize(sum (x - z_x) * a * b, m)`` over two rows and two columns.

    Params: rows int32 (3 * oh,): all first rows, all second ones, and ``a`` of the second in units
    of ``2**-WEIGHT_BITS`` (that of the first is what is missing to 1); columns int32 (3 * ow,)
    likewise; m float32 (1,) takes the sum in such units to steps of y, z int32 (2,) = z_x, z_y,
    clamp float32 (2,); fixed-point also shift.
    """

    kind: ClassVar[str] = "interpolate"
    batch: Size
    channels: int
    height: int
    width: int
    out_size: Pair
    x: QType
    y: QType

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("rows", "columns", *self.scaled_by("m"), "z", "clamp")

    def constant_dtype(self, name: str) -> str:
        """Element type of constant ``name``."""
        return "int32" if name in ("rows", "columns") else super().constant_dtype(name)

    def shape(self, name: str) -> Shape:
        """Logical shape of activation ``name`` ("x" or "y")."""
        size = (self.height, self.width) if name == "x" else self.out_size
        return (self.batch, self.channels, *size)
