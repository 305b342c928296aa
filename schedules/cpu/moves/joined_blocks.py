"""Blocks of channels that are joined from pieces of other blocks, a pixel at a time in registers.

    x, x0, x1, ... : images in NCHW16c
    y              : an image in NCHW16c; float32 lanes past the last channel are 0

A concat whose boundaries fall inside of blocks, and a slice of channels that begins inside of one:
a block of y then has channels of two or more blocks of x. Which lanes these are is the same for
all pixels, so that a block of y is a few shuffles of vectors. Loops (p parallel):

    p:image * run of pixels
      block of y                                     written out, each with its own shuffles
        pixel

Exact:  elements are moved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies import concat
from schedules.bodies.arguments import int64
from schedules.bodies.buffers import declare_operator, flat, ramp, whole
from schedules.bodies.prim_func import axes, prim_func
from schedules.cpu.elementwise import SERIAL_ELEMENTS
from schedules.cpu.lanes import shuffle
from schedules.layout import NCHW16C
from schedules.spec import Concat, Move
from schedules.template import Layouts

LANES = NCHW16C.block
RUN = 64  # pixels of a task: a block's are a KiB of bytes, which the caches keep beside the others


@dataclass(frozen=True)
class Piece:
    """Channels of y that follow each other in one tensor.

    Parameters
    ----------
    tensor
        The position of the tensor among the inputs.
    first
        Its first channel that y has.
    count
        How many y has.
    """

    tensor: int
    first: int
    count: int


def pieces(spec: Concat | Move, layouts: Layouts) -> list[Piece]:
    """Return what the channels of y are joined from; none where loops copy whole blocks."""
    if any(layout != NCHW16C for layout in (*layouts.inputs, layouts.output)):
        return []
    if isinstance(spec, Concat):
        if spec.axis != 1 or concat.is_aligned(spec, layouts):
            return []
        return [Piece(i, 0, int(shape[1])) for i, shape in enumerate(spec.shapes)]
    first, steps = spec.arguments[1:2], spec.arguments[4:]
    is_whole = spec.move == "slice" and spec.x_shape[2:] == spec.y_shape[2:]
    if not is_whole or any(step != 1 for step in steps) or first[0] % LANES == 0:
        return []
    return [Piece(0, first[0], int(spec.y_shape[1]))] if not spec.arguments[0] else []


def kernel(spec: Concat | Move, layouts: Layouts, template: str, _parts: int) -> tirx.PrimFunc:
    """Return the PrimFunc; there must be ``pieces``."""
    joined = [_block(lanes) for lanes in _lanes(pieces(spec, layouts))]
    n, _, *size = spec.shape("y")
    pixels = math.prod(size)
    run = min(pixels, RUN)
    runs = -(-pixels // run)
    count = n * runs
    is_large = not isinstance(count, int) or count * run * len(joined) * LANES >= SERIAL_ELEMENTS
    with prim_func() as builder:
        *xs, y = declare_operator(spec, {}, NCHW16C).values()
        tasks = (T.parallel if is_large else T.serial)(*int64([count]))
        with T.sblock("root"), tasks as loop, T.sblock("joined"):
            (task,) = axes("run", int64([count]), [loop])
            T.reads(*(whole(x) for x in xs))
            T.writes(whole(y))
            T.sblock_attr({"template": template})
            # The last run of an image begins early, so that all are whole.
            first = tirx.min(task % runs * run, T.int64(pixels - run))
            pixel = _Pixels([*map(flat, xs)], flat(y), [*map(_blocks, xs)], len(joined), pixels)
            for at, block in enumerate(joined):
                with T.serial(T.int64(run)) as i:
                    pixel.emit(block, at, task // runs, first + i)
    return builder.get()


_Lane = tuple[int, int, int] | None  # tensor, block and lane of x; None past the last channel


@dataclass(frozen=True)
class _Block:
    """A block of y: the blocks of x that it has lanes of, and the shuffles that join them.

    ``orders[0]`` takes lanes of the first block, or of the first two where there are two; each
    further one joins what there is so far and one block more.
    """

    sources: list[tuple[int, int]]
    orders: list[list[int]]
    missing: int


def _lanes(parts: Sequence[Piece]) -> list[list[_Lane]]:
    """Return where each lane of each block of y comes from."""
    channels: list[_Lane] = [
        (piece.tensor, *divmod(piece.first + i, LANES))
        for piece in parts
        for i in range(piece.count)
    ]
    channels += [None] * (-len(channels) % LANES)
    return [channels[begin : begin + LANES] for begin in range(0, len(channels), LANES)]


def _block(lanes: Sequence[_Lane]) -> _Block:
    """Return how one block is joined."""
    known = [lane for lane in lanes if lane is not None]
    sources = list(dict.fromkeys(lane[:2] for lane in known))
    orders = [_order(lanes, sources[:2])]
    for number in range(2, len(sources)):
        orders.append(_order(lanes, sources[: number + 1], joined=number))
    return _Block(sources, orders, len(lanes) - len(known))


def _order(
    lanes: Sequence[_Lane], sources: Sequence[tuple[int, int]], joined: int = 1
) -> list[int]:
    """Return the order that takes ``lanes`` of two vectors: ``joined`` sources, and the next one.

    A lane that neither has continues the one before it.
    """
    order: list[int] = []
    for at, lane in enumerate(lanes):
        number = sources.index(lane[:2]) if lane is not None and lane[:2] in sources else None
        if lane is None or number is None:
            order.append((order[-1] + 1) % (LANES * min(len(sources), 2)) if order else 0)
        elif number == joined:
            order.append(LANES + lane[2])
        else:
            order.append(lane[2] if joined == 1 else at)
    return order


@dataclass(frozen=True)
class _Pixels:
    """Writes pixels of a block of y; tensors are seen as flat memory."""

    xs: list[Any]
    y: Any
    blocks: list[int]
    y_blocks: int
    pixels: int

    def emit(self, block: _Block, at: int, image: Expr, pixel: Expr) -> None:
        """Emit one."""

        def _here(blocks: int, number: int) -> Expr:
            return ramp(LANES, ((image * blocks + number) * self.pixels + pixel) * LANES)

        first, *others = (self.xs[x][_here(self.blocks[x], number)] for x, number in block.sources)
        value = first if others else shuffle(first, block.orders[0])
        for vector, order in zip(others, block.orders, strict=False):
            value = tirx.Shuffle([value, vector], order)
        if block.missing and self.y.dtype == "float32":
            zero = tirx.Broadcast(tirx.const(0, "float32"), LANES)
            kept = LANES - block.missing
            value = tirx.Shuffle([value, zero], [*range(kept), *range(LANES, 2 * LANES - kept)])
        T.buffer_store(self.y, value, [_here(self.y_blocks, at)])


def _blocks(image: Any) -> int:
    return int(image.shape[1])
