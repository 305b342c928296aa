"""What one tensor-core kernel reads and writes: a product of pixels and channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.tirx import Expr

Index = Sequence[Any]


@dataclass(frozen=True, kw_only=True)
class Gemm:
    """What one kernel reads and writes.

    Parameters
    ----------
    template
        The template's name.
    buffers
        Name -> (shape, dtype) of each argument, in order; w as ``pack_weights`` gives it.
    images
        Extent of the outermost loop.
    rows
        Pixels of an image.
    groups, blocks, slabs
        Groups, blocks of output channels of a group, slabs of a group.
    x
        ``(image, row, group)`` -> the byte of x at which the first slab of a pixel would begin, and
        bits of the rows, then of the columns, of its window that are outside, None if none can be.
    y
        ``(image, row, channel)`` -> the index in y and r.
    block_bytes
        From a block of input channels to the next.
    taps, tap_bytes
        Rows and columns of the window, and bytes of x from one to the next. Slabs are counted by
        taps, then by blocks of channels.
    has_border
        Whether ``x`` returns bits.
    channels
        How many of the channels y has, where it does not have whole blocks.
    depth
        How many bytes a row of x has, where the last slab reaches past them.
    """

    template: str
    buffers: dict[str, tuple[Any, str]]
    images: Any
    rows: int
    groups: int
    blocks: int
    slabs: int
    x: Callable[[Expr, Expr, Expr], tuple[Expr, Expr | None]]
    y: Callable[[Expr, Expr, Expr], Index]
    block_bytes: int
    taps: tuple[int, int] = (1, 1)
    tap_bytes: tuple[int, int] = (0, 0)
    has_border: bool = False
    channels: int | None = None
    depth: int | None = None

    @property
    def tap_slabs(self) -> int:
        """Slabs of one tap."""
        return self.slabs // (self.taps[0] * self.taps[1])

    @property
    def window_type(self) -> str:
        """The type whose bits are rows and columns of the window, of which none is its sign."""
        return "int32" if sum(self.taps) < 32 else "int64"
