"""Where the logical axes of an activation lie in memory.

``ROW`` is row major, any rank; ``NHWC`` and ``NCHW<x>c`` hold images. NCHW16c is
(n, ceil(c / 16), h, w, 16): the channels of one block are contiguous. Weights that meet the lanes
past the last channel are zero. What integers those lanes hold is undefined; floats are zero, and
every kernel writes them so, for zero times NaN is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Layout:
    """One memory layout; ``block`` is the channels in a block, 0 where channels are not blocked."""

    name: str
    block: int = 0

    def physical_shape(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """Return the shape in memory of a tensor of logical ``shape``."""
        if self == ROW:
            return tuple(shape)
        n, c, h, w = shape
        return (n, -(-c // self.block), h, w, self.block) if self.block else (n, h, w, c)

    def physical_index(self, index: Sequence[Any]) -> tuple[Any, ...]:
        """Return where the element at logical ``index`` lies."""
        if self == ROW:
            return tuple(index)
        n, c, h, w = index
        return (n, c // self.block, h, w, c % self.block) if self.block else (n, h, w, c)

    def logical_index(self, index: Sequence[Any]) -> tuple[Any, ...]:
        """Return the logical index of the element at physical ``index``."""
        if self == ROW:
            return tuple(index)
        if self.block:
            n, c_o, h, w, c_i = index
            return (n, c_o * self.block + c_i, h, w)
        n, h, w, c = index
        return (n, c, h, w)

    def pack(self, array: np.ndarray) -> np.ndarray:
        """Return a logical array as it lies in memory; lanes past the last channel are zero."""
        if self == ROW:
            return np.asarray(array, order="C")  # ascontiguousarray gives a scalar an axis
        if not self.block:
            return np.ascontiguousarray(array.transpose(0, 2, 3, 1))
        n, c, h, w = array.shape
        array = np.pad(array, ((0, 0), (0, -c % self.block), (0, 0), (0, 0)))
        blocks = array.reshape(n, -1, self.block, h, w)
        return np.ascontiguousarray(blocks.transpose(0, 1, 3, 4, 2))

    def unpack(self, array: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        """Return an array that lies in memory so as its logical ``shape``."""
        if self == ROW:
            return array.reshape(shape)
        if not self.block:
            return np.ascontiguousarray(array.transpose(0, 3, 1, 2))
        n, c, h, w = shape
        return np.ascontiguousarray(array.transpose(0, 1, 4, 2, 3).reshape(n, -1, h, w)[:, :c])


ROW = Layout("row")
NHWC = Layout("NHWC")
NCHW4C = Layout("NCHW4c", 4)
NCHW8C = Layout("NCHW8c", 8)
NCHW16C = Layout("NCHW16c", 16)
NCHW32C = Layout("NCHW32c", 32)
LAYOUTS = {layout.name: layout for layout in (ROW, NHWC, NCHW4C, NCHW8C, NCHW16C, NCHW32C)}
