"""Sizes of a convolution to few channels: what registers hold, how tasks share the rows of y."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from schedules.cpu.dot import LANES
from schedules.cpu.lanes import Lanes
from schedules.spec import Conv2d

COPY_BYTES = 1 << 18  # of the copied rows of a task: a part of an L2 cache
MOST_ROWS = 8  # of a task


@dataclass(frozen=True, kw_only=True)
class Flavour:
    """The instruction of a kernel, and what registers hold.

    Parameters
    ----------
    lanes
        The instruction, on 16 lanes.
    sums
        Vectors of 16 lanes that stay in registers.
    """

    lanes: Lanes
    sums: int

    @property
    def name(self) -> str:
        """The name of the template."""
        return f"conv2d_narrow_{self.lanes.dot.name}"

    @property
    def pixels(self) -> int:
        """Pixels of a vector of x, of 16 channels each."""
        return self.lanes.dot.width

    @property
    def vectors(self) -> int:
        """Vectors of the 16 pixels of a tile."""
        return LANES // self.pixels

    def together(self, channels: int) -> int:
        """Return how many vectors of a tile are computed at once, for so many output channels."""
        wanted = max(1, self.sums // channels)
        return max(count for count in (1, 2, 4, 8) if count <= min(wanted, self.vectors))


@dataclass(frozen=True)
class Geometry:
    """Rows and columns of y as the loops see them, and how a task deals them out.

    Parameters
    ----------
    height, width
        Of y; a convolution of single pixels has one row where an image's are short.
    rows
        Rows of a task.
    reach
        Rows and columns of x beside the first that a pixel of y reads.
    copied
        The type of the copy of x; None where x is read as it lies.
    """

    height: int
    width: int
    rows: int
    reach: tuple[int, int]
    copied: str | None

    @classmethod
    def of(cls, spec: Conv2d, flavour: Flavour) -> Geometry:
        """Return those of a convolution."""
        (height, width), padded, staged = spec.out_size, any(spec.padding), flavour.lanes.staged
        (down, across) = ((k - 1) * d for k, d in zip(spec.kernel, spec.dilation, strict=True))
        if width < LANES and not (down or across or padded):
            height, width = 1, height * width
        reads_often = staged is not None and spec.kernel != (1, 1)
        copied = (staged or spec.x) if padded or reads_often else None
        rows = MOST_ROWS
        if copied:
            elements = (width + across) * -(-spec.in_channels // LANES) * LANES
            row = elements * np.dtype(copied).itemsize
            rows = max(1, min(COPY_BYTES // row - down, MOST_ROWS))
        count = -(-height // rows)
        return cls(height, width, -(-height // count), (down, across), copied)

    @property
    def x_width(self) -> int:
        """Pixels of a row of x, with its border."""
        return self.width + self.reach[1]

    @property
    def tasks(self) -> int:
        """Tasks of an image; the last begins early enough that all of its rows exist."""
        return -(-self.height // self.rows)
