"""Where the copies of one thread come from: what no step changes is computed before the first.

Thread t makes the copies t, t + threads, ... of a fetch, which is (slabs, pixels, 2) chunks of x
and (slabs, blocks, 64) of w. All of these are powers of two, so that thread and copy give different
bits of a chunk's number, and an address is a sum:

    thread    pixel and half of x, part of w: in registers
    step      tap and block of channels: the same in all threads, if a fetch has slabs of one tap
    copy      a constant

A pixel of x also has a register with a bit for each row and each column of the window that is
outside of the image: a copy is border if one of its two bits is set, and then reads zero points
that lie behind the others in memory. Pixels past the last are the last again; nobody writes what
they sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import flat
from schedules.cuda.mma.operands import Gemm
from schedules.cuda.mma.thread import VECTOR_WORDS, Thread, stored_half
from schedules.cuda.mma.tiles import CHUNK
from schedules.cuda.mma.weights import BLOCK, SLAB_BYTES
from schedules.cuda.statements import registers

HALVES = BLOCK // CHUNK
SLAB_CHUNKS = SLAB_BYTES // CHUNK
FILL = 4  # words of z in front of the 16 bytes for a border of x, and the 16 for no weights


@dataclass(frozen=True, kw_only=True)
class Chunks:
    """The chunks of a fetch of x or w, shared out to the threads of a block."""

    thread: Thread
    count: int

    @property
    def copies(self) -> int:
        """Copies of one thread."""
        return -(-self.count // self.thread.threads)

    @property
    def left(self) -> list[Expr]:
        """The condition under which a thread has a copy, where some have none."""
        return [self.thread.number < self.count] if self.count % self.thread.threads else []

    def of_thread(self, unit: int, extent: int) -> Expr:
        """Return what the thread gives to ``chunk // unit % extent``."""
        return tirx.floormod(tirx.floordiv(self.thread.number, unit), extent)

    def of_copy(self, copy: int, unit: int, extent: int) -> int:
        """Return what a thread's copy gives to it."""
        return copy * self.thread.threads // unit % extent


@dataclass(frozen=True, kw_only=True)
class Source:
    """The bytes of ``buffer`` that a copy reads; those at ``fill`` unless ``inside`` is true."""

    buffer: Any
    index: Expr
    inside: list[Expr]
    fill: Any


@dataclass(frozen=True, kw_only=True)
class XSources:
    """Copies of x: halves of slabs, of one pixel of y or of several."""

    chunks: Chunks
    x: Any
    pixels: Sequence[int]
    at: Any
    outside: Any

    @classmethod
    def of(cls, thread: Thread) -> XSources:
        """Emit what is the same in each step."""
        tiles, gemm = thread.tiles, thread.gemm
        chunks = Chunks(thread=thread, count=tiles.x_bytes // CHUNK)
        pixels = sorted(
            {chunks.of_copy(copy, HALVES, tiles.pixels) for copy in range(chunks.copies)}
        )
        sources = cls(
            chunks=chunks,
            x=flat(thread.buffers["x"]),
            pixels=pixels,
            at=registers("x_at", len(pixels), "int64"),
            outside=(
                registers("x_outside", len(pixels), gemm.window_type) if gemm.has_border else None
            ),
        )
        for number, pixel in enumerate(pixels):
            sources._begin_pixel(number, pixel)
        return sources

    def _begin_pixel(self, number: int, pixel: int) -> None:
        """Emit the first byte of a pixel's window, and which rows and columns it lacks."""
        thread, gemm = self.chunks.thread, self.chunks.thread.gemm
        row = thread.first_row + self.chunks.of_thread(HALVES, thread.tiles.pixels) + pixel
        if gemm.rows % thread.tiles.pixels:
            row = tirx.min(row, gemm.rows - 1)
        first, outside = gemm.x(thread.image, row, thread.group)
        first += self._half * CHUNK
        if in_one_tap(gemm, thread.tiles.slabs):
            first += self._thread_slab * gemm.block_bytes
        T.buffer_store(self.at, tirx.Cast("int64", first), [number])
        if outside is not None:
            T.buffer_store(self.outside, outside, [number])

    @property
    def _half(self) -> Expr:
        """The half of a slab that the thread copies: where it goes, halves are swapped."""
        pixels = self.chunks.thread.tiles.pixels
        return stored_half(self.chunks.of_thread(1, HALVES), self.chunks.of_thread(HALVES, pixels))

    @property
    def _thread_slab(self) -> Expr:
        tiles = self.chunks.thread.tiles
        return self.chunks.of_thread(tiles.pixels * HALVES, tiles.slabs)

    def source(self, step: Expr, copy: int) -> Source:
        """Return what a copy of a step reads."""
        thread, gemm, tiles = self.chunks.thread, self.chunks.thread.gemm, self.chunks.thread.tiles
        number = self.pixels.index(self.chunks.of_copy(copy, HALVES, tiles.pixels))
        copy_slab = self.chunks.of_copy(copy, tiles.pixels * HALVES, tiles.slabs)
        slab = step * tiles.slabs + copy_slab + self._thread_slab
        if in_one_tap(gemm, tiles.slabs):
            in_tap, needed = _of_slab(gemm, step * tiles.slabs)
            in_tap += copy_slab * gemm.block_bytes
        else:
            in_tap, needed = _of_slab(gemm, slab)
        inside = []
        if self.outside is not None:
            inside.append((self.outside[number] & needed) < 1)
        if gemm.slabs % tiles.slabs:
            inside.append(slab < gemm.slabs)
        if gemm.depth is not None:
            inside.append(slab * BLOCK + self._half * CHUNK < gemm.depth)
        return Source(
            buffer=self.x,
            index=self.at[number] + tirx.Cast("int64", in_tap),
            inside=inside,
            fill=thread.buffers["z"][FILL],
        )


def _of_slab(gemm: Gemm, slab: Expr) -> tuple[Expr, Expr]:
    """Return where a slab lies from a pixel's first byte, and the bits of its row and column."""
    dtype = gemm.window_type
    one = tirx.const(1, dtype)
    if gemm.taps == (1, 1):
        return slab * gemm.block_bytes, tirx.const(0b11, dtype)
    tap, block = tirx.floordiv(slab, gemm.tap_slabs), tirx.floormod(slab, gemm.tap_slabs)
    row, column = tirx.floordiv(tap, gemm.taps[1]), tirx.floormod(tap, gemm.taps[1])
    first = block * gemm.block_bytes + row * gemm.tap_bytes[0] + column * gemm.tap_bytes[1]
    bits = [tirx.shift_left(one, tirx.Cast(dtype, bit)) for bit in (row, column + gemm.taps[0])]
    return first, bits[0] | bits[1]


@dataclass(frozen=True, kw_only=True)
class WSources:
    """Copies of w: parts of slabs, of one block of channels or of several."""

    chunks: Chunks
    w: Any
    at: Any

    @classmethod
    def of(cls, thread: Thread) -> WSources:
        """Emit what is the same in each step."""
        tiles, gemm = thread.tiles, thread.gemm
        count = (tiles.stage_bytes - tiles.x_bytes) // CHUNK
        sources = cls(
            chunks=Chunks(thread=thread, count=count),
            w=flat(thread.buffers["w"]),
            at=registers("w_at", 1, "int64"),
        )
        block = thread.group * gemm.blocks + thread.first_block + sources._thread_block
        first = (tirx.Cast("int64", block) * gemm.slabs + sources._thread_slab) * SLAB_BYTES
        first += sources.chunks.of_thread(1, SLAB_CHUNKS) * CHUNK
        T.buffer_store(sources.at, first, [0])
        return sources

    @property
    def _thread_block(self) -> Expr:
        return self.chunks.of_thread(SLAB_CHUNKS, self.chunks.thread.tiles.channel_blocks)

    @property
    def _thread_slab(self) -> Expr:
        tiles = self.chunks.thread.tiles
        return self.chunks.of_thread(SLAB_CHUNKS * tiles.channel_blocks, tiles.slabs)

    def source(self, step: Expr, copy: int) -> Source:
        """Return what a copy of a step reads."""
        thread, gemm, tiles = self.chunks.thread, self.chunks.thread.gemm, self.chunks.thread.tiles
        part = self.chunks.of_copy(copy, 1, SLAB_CHUNKS)
        block = self.chunks.of_copy(copy, SLAB_CHUNKS, tiles.channel_blocks)
        slab = self.chunks.of_copy(copy, SLAB_CHUNKS * tiles.channel_blocks, tiles.slabs)
        further = (block * gemm.slabs + slab) * SLAB_BYTES + part * CHUNK
        inside = []
        if gemm.blocks % tiles.channel_blocks:
            inside.append(thread.first_block + self._thread_block + block < gemm.blocks)
        if gemm.slabs % tiles.slabs:
            inside.append(step * tiles.slabs + self._thread_slab + slab < gemm.slabs)
        of_step = tirx.Cast("int64", step * (tiles.slabs * SLAB_BYTES))
        return Source(
            buffer=self.w,
            index=self.at[0] + of_step + further,
            inside=inside,
            fill=thread.buffers["z"][FILL + VECTOR_WORDS],
        )


def in_one_tap(gemm: Gemm, slabs: int) -> bool:
    """Say whether all slabs of each fetch of ``slabs`` are of one tap of the window."""
    return gemm.taps == (1, 1) or gemm.tap_slabs % slabs == 0
