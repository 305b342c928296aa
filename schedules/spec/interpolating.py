"""Bilinear resizes of images, of integers and of floats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schedules.spec.operator_spec import OperatorSpec, Pair, QType, Shape, Size
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


@dataclass(frozen=True, kw_only=True)
class Bilinear(OperatorSpec):
    """Bilinear resize of float32: along columns, then rows, ``fma(second - first, weight, first)``.

    Params: rows int32 (2 * oh,): all first rows, all second ones, each ascending; row_weights
    float32 (oh,) of the second; columns int32 (2 * ow,) and column_weights float32 (ow,) likewise.
    """

    kind: ClassVar[str] = "bilinear"
    batch: Size
    channels: int
    height: int
    width: int
    out_size: Pair

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("rows", "row_weights", "columns", "column_weights")

    def constant_dtype(self, name: str) -> str:
        """Element type of constant ``name``."""
        return "int32" if name in ("rows", "columns") else "float32"

    def lengths(self) -> dict[str, int]:
        """How many elements each constant has."""
        rows, columns = self.out_size
        return {
            "rows": 2 * rows,
            "row_weights": rows,
            "columns": 2 * columns,
            "column_weights": columns,
        }

    def shape(self, name: str) -> Shape:
        """Logical shape of activation ``name`` ("x" or "y")."""
        size = (self.height, self.width) if name == "x" else self.out_size
        return (self.batch, self.channels, *size)

    def dtype(self, name: str) -> str:
        """Element type of activation ``name``."""
        return "float32"
