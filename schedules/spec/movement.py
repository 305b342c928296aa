"""Operators that move elements and compute none."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import ClassVar, Literal

from schedules.spec.operator_spec import DType, OperatorSpec, Shape


@dataclass(frozen=True, kw_only=True)
class Concat(OperatorSpec):
    """Concatenate along ``axis``; all of one type and scale. Activations are named x0, x1, ..."""

    kind: ClassVar[str] = "concat"
    shapes: tuple[Shape, ...]
    axis: int
    x: DType

    @property
    def tensors(self) -> tuple[str, ...]:
        """Names of the activations it reads."""
        return tuple(f"x{i}" for i in range(len(self.shapes)))

    def shape(self, name: str) -> Shape:
        """Logical shape of activation ``name``."""
        if name != "y":
            return self.shapes[int(name[1:])]
        total = sum(shape[self.axis] for shape in self.shapes)
        first = self.shapes[0]
        return (*first[: self.axis], total, *first[self.axis + 1 :])

    def dtype(self, name: str) -> str:
        """Element type of every activation."""
        return self.x


@dataclass(frozen=True, kw_only=True)
class Move(OperatorSpec):
    """Integers (or floats) moved, none computed: y[i] = x[f(i)], or the fill value outside of x.

    move: how the logical output index maps to the input's:
    "copy" (layout change alone: a repack), "reshape" (equal row-major offsets),
    "transpose" (arguments: axes), "slice" (arguments: begins, then steps, each of x's rank),
    "shuffle" (an image's channels, rows and columns cut into digits, the digits permuted, joined
    and cropped: arguments: extents of the digits of x, their order in y, the three extents of y
    before the crop, and where the crop begins on each; the batch stays),
    "pad", "edge" and "reflect" (arguments: widths before each axis; outside of x is the fill value,
    the last element of x, or x mirrored there, by less than its size), "resize" (nearest of a 4-D
    image; arguments: none, ``x index = floor(y index * x size / y size)``).
    Params: fill, of type x, shape (1,), for "pad"; else none.
    """

    kind: ClassVar[str] = "move"
    move: Literal[
        "copy", "reshape", "transpose", "slice", "shuffle", "pad", "edge", "reflect", "resize"
    ]
    x_shape: Shape
    y_shape: Shape
    arguments: tuple[int, ...] = ()
    x: DType

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the constants it reads."""
        return ("fill",) if self.move == "pad" else ()

    @property
    def shuffle_parts(self) -> tuple[tuple[int, ...], ...]:
        """The arguments of "shuffle": digits, axes, joined, begins."""
        count = (len(self.arguments) - 6) // 2
        cuts = (0, count, 2 * count, 2 * count + 3, 2 * count + 6)
        return tuple(self.arguments[a:b] for a, b in itertools.pairwise(cuts))

    def shape(self, name: str) -> Shape:
        """Logical shape of activation ``name`` ("x" or "y")."""
        return self.x_shape if name == "x" else self.y_shape

    def dtype(self, name: str) -> str:
        """Element type of x and y."""
        return self.x
