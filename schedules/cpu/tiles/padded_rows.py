"""A row of x with its border, as kernels copy it where windows reach past the image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.vectors import broadcast
from schedules.cpu.tiles.runs import by_chunks
from schedules.layout import NCHW16C

LANES = NCHW16C.block
REGISTER_BYTES = 64  # width of a copy; where registers are narrower, LLVM splits it


@dataclass(frozen=True, kw_only=True)
class PaddedRow:
    """A row of pixels of 16 channels.

    Parameters
    ----------
    width
        Pixels of the row, with the border.
    left, inner
        Pixels in front of the image, and those of the image.
    dtype
        Of the copy.
    load
        ``(first pixel of the image's row, lanes)`` -> its elements, of ``dtype``.
    store
        ``(first pixel of the padded row, lanes, elements)``: emit the store.
    """

    width: int
    left: int
    inner: int
    dtype: str
    load: Callable[[Expr, int], Expr]
    store: Callable[[Expr, int, Expr], None]

    @classmethod
    def reach(cls, width: int, padding: int, inside: int) -> tuple[int, int]:
        """Return ``left`` and ``inner`` where windows read ``width`` pixels around ``inside``."""
        left = min(padding, width)
        return left, min(inside, width - left)

    def emit(self, exists: Expr, zero: Expr) -> None:
        """Emit the copy where the row ``exists``; elsewhere, and in the border, ``zero``."""
        with T.If(exists):
            with T.Then():
                self._fill(0, self.left, zero)
                self._copy()
                self._fill(self.left + self.inner, self.width - self.left - self.inner, zero)
            with T.Else():
                self._fill(0, self.width, zero)

    def _fill(self, first: int, count: int, zero: Expr) -> None:
        with T.serial(T.int64(count)) as pixel:
            self.store(first + pixel, LANES, broadcast(zero, LANES))

    def _copy(self) -> None:
        """Copy a register at a time while there are that many pixels, then one by one."""

        def _pixels(first: Expr, count: int) -> None:
            self.store(self.left + first, count * LANES, self.load(first, count * LANES))

        step = REGISTER_BYTES // (LANES * np.dtype(self.dtype).itemsize)
        by_chunks(self.inner, step, _pixels)
