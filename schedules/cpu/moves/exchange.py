"""Which moves exchange two runs of axes: matrices, one behind the other, that are transposed.

    x : (outer, rows, columns)      what lies in memory, whatever the layout calls it
    y : (outer, columns, rows)

An image that goes from NCHW16c to row major is so many matrices of (pixels, 16), and back; tokens
become an image by one matrix. The last block of channels may be cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import Expr

from schedules.layout import NCHW16C, ROW
from schedules.spec import DType, Move
from schedules.spec.operator_spec import Shape
from schedules.template import Layouts

SIDE = NCHW16C.block  # vectors of a tile, words of a vector, channels of a block
BYTES = {"int8": 1, "uint8": 1, "int32": 4, "float32": 4}


@dataclass(frozen=True)
class Matrices:
    """Matrices one behind the other; ``outer`` of them may be symbolic.

    Parameters
    ----------
    outer, rows, columns
        Of x; y has the columns as rows.
    channels
        Of an image whose blocks of channels the matrices are; 0 where there are none.
    packs
        Whether y has the blocks, of 16 rows of x each, or x, of 16 columns.
    """

    outer: Any
    rows: int
    columns: int
    channels: int = 0
    packs: bool = False

    @property
    def blocks(self) -> int:
        """Matrices of an image."""
        return max(1, -(-self.channels // SIDE))

    @property
    def cut(self) -> int:
        """Channels of the last block; 0 where it is whole."""
        return self.channels % SIDE

    def starts(self, matrix: Expr) -> tuple[Expr, Expr]:
        """Return where a matrix begins in x and in y: row major images have no missing channels."""
        blocked = matrix * (self.rows * self.columns)
        if not self.channels:
            return blocked, blocked
        channel = matrix // self.blocks * self.channels + matrix % self.blocks * SIDE
        if self.packs:
            return channel * self.columns, blocked
        return blocked, channel * self.rows


def matrices(spec: Move, layouts: Layouts) -> Matrices | None:
    """Return the matrices that ``spec`` transposes, if that is what it does."""
    source, target = layouts.inputs[0], layouts.output
    if spec.x not in BYTES:
        return None
    if spec.move in ("copy", "reshape") and {source, target} == {NCHW16C, ROW}:
        n, c, *size = spec.x_shape if source == NCHW16C else spec.y_shape
        packs, channels, pixels = target == NCHW16C, int(c), math.prod(size)
        rows, columns = (SIDE, pixels) if packs else (pixels, SIDE)
        found = Matrices(n * -(-channels // SIDE), rows, columns, channels, packs)
    elif spec.move == "transpose" and source == target == ROW:
        exchanged = _exchanged(spec.arguments)
        if exchanged is None:
            return None
        first, second = exchanged
        outer, rows, columns = (
            math.prod(spec.x_shape[a:b]) for a, b in ((0, first), (first, second), (second, None))
        )
        found = Matrices(outer, rows, columns)
    else:
        return None
    if not isinstance(found.rows, int):  # the batch itself changes places
        return None
    narrow, wide = sorted((found.rows, found.columns))
    return found if narrow >= SIDE and wide >= SIDE * 4 // BYTES[spec.x] else None


def is_copied_by_tiles(dims: Shape, dtype: DType, layouts: Layouts) -> bool:
    """Say whether a copy from one layout to the other is such a move."""
    copy = Move(move="copy", x_shape=dims, y_shape=dims, x=dtype)
    return matrices(copy, layouts) is not None


def _exchanged(order: Sequence[int]) -> tuple[int, int] | None:
    """Return where the two runs begin that are exchanged behind axes that stay, or None."""
    first = next((i for i, axis in enumerate(order) if axis != i), len(order))
    second = order[first] if first < len(order) else 0
    expected = [*range(first), *range(second, len(order)), *range(first, second)]
    return (first, second) if list(order) == expected and first < second else None
