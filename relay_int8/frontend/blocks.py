"""Blocks of pixels that are put together to an image: ONNX's Col2Im and PyTorch's ``fold``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax

from relay_int8.frontend.emit import Emit
from relay_int8.graph.dataflow import dtype, shape

MOST_AXES = 2  # of an image whose blocks overlap: those of a transposed convolution
MOST_PIXELS = 1024  # of such a block: 32 x 32; more come from a damaged file


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Where blocks lie in an image; one number for each of its axes.

    Parameters
    ----------
    image, block
        Extents.
    strides
        Pixels from one block to the next.
    before, after
        Pixels by which the first and the last block may hang over the image.
    dilation
        Pixels from one element of a block to the next.
    """

    image: Sequence[int]
    block: Sequence[int]
    strides: Sequence[int]
    before: Sequence[int]
    after: Sequence[int]
    dilation: Sequence[int]

    @property
    def spans(self) -> list[int]:
        """Pixels from the first element of a block to its last one."""
        return [d * (b - 1) + 1 for b, d in zip(self.block, self.dilation, strict=True)]

    @property
    def rooms(self) -> list[int]:
        """Pixels between the first places of the first and the last block, and what is left."""
        margins = zip(self.image, self.before, self.after, self.spans, strict=True)
        return [size + before + after - span for size, before, after, span in margins]

    @property
    def counts(self) -> list[int]:
        """Blocks along each axis."""
        return [room // s + 1 for room, s in zip(self.rooms, self.strides, strict=True)]

    @property
    def tile(self) -> bool:
        """Whether each pixel belongs to one block."""
        whole = all(size % b == 0 for size, b in zip(self.image, self.block, strict=True))
        plain = not any((*self.before, *self.after, *(d - 1 for d in self.dilation)))
        return whole and plain and list(self.strides) == list(self.block)


def join_blocks(emit: Emit, x: relax.Expr, blocks: Blocks) -> relax.Expr:
    """Return (n, c, *image) of blocks (n, c * block, number of blocks), added where they overlap.

    Raises
    ------
    ValueError
        The blocks make no such image.
    NotImplementedError
        They overlap in an image of more than two axes, or are very large.
    """
    (n, depth, count), size = shape(x), math.prod(blocks.block)
    if depth % size or min(blocks.rooms) < 0 or count != math.prod(blocks.counts):
        raise ValueError(
            f"{count} blocks of {list(blocks.block)} every {list(blocks.strides)} pixels make no "
            f"image of {list(blocks.image)}"
        )
    channels = depth // size
    if blocks.tile:
        return _tiled(emit, x, blocks, (n, channels))
    if len(blocks.image) > MOST_AXES or size > MOST_PIXELS:
        raise NotImplementedError(
            f"blocks of {list(blocks.block)} every {list(blocks.strides)} pixels; those of more "
            f"than two axes, or {MOST_PIXELS} pixels, are read where they neither overlap nor "
            "leave anything out"
        )
    return _added(emit, x, blocks, (n, channels))


def _tiled(emit: Emit, x: relax.Expr, blocks: Blocks, outer: tuple[int, int]) -> relax.Expr:
    rank = len(blocks.image)
    cut = emit("cut", relax.op.reshape(x, (*outer, *blocks.block, *blocks.counts)))
    pairs = [axis for i in range(rank) for axis in (2 + rank + i, 2 + i)]
    turned = emit("turned", relax.op.permute_dims(cut, [0, 1, *pairs]))
    return relax.op.reshape(turned, (*outer, *blocks.image))


def _added(emit: Emit, x: relax.Expr, blocks: Blocks, outer: tuple[int, int]) -> relax.Expr:
    """Convolve transposed: element k of a block has weight 1 at its own pixel, 0 elsewhere."""
    lines = MOST_AXES - len(blocks.image)  # a sequence is an image of one row
    ones, zeros = [1] * lines, [0] * lines
    (n, channels), block = outer, [*ones, *blocks.block]
    left = [room % s for room, s in zip(blocks.rooms, blocks.strides, strict=True)]
    image = (n, channels * math.prod(block), *ones, *blocks.counts)
    element = np.eye(math.prod(block)).reshape(-1, 1, *block)
    weights = relax.const(np.tile(element, (channels, 1, 1, 1)), dtype(x))
    y = relax.op.nn.conv2d_transpose(
        emit("elements", relax.op.reshape(x, image)),
        weights,
        strides=[*ones, *blocks.strides],
        padding=[*zeros, *blocks.before, *zeros, *blocks.after],
        output_padding=[*zeros, *left],
        dilation=[*ones, *blocks.dilation],
        groups=channels,
    )
    return relax.op.reshape(emit("added", y), (*outer, *blocks.image)) if lines else y
