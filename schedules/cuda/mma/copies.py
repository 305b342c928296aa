"""One fetch of a tensor-core kernel: slabs of x and of w, to shared memory, by all threads.

A stage of shared memory is (slabs, pixels, 32) bytes of x, then (slabs, blocks, 1024) of w. A copy
has 16 bytes; it is begun before the products of another stage and ended after them. On sm_80 it
runs by itself in between; on sm_75 it waits in registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.cuda.mma.place import Place, registers, run, unrolled, where
from schedules.cuda.mma.tiles import CHUNK
from schedules.cuda.mma.weights import BLOCK, SLAB_BYTES

HALVES = BLOCK // CHUNK
SLAB_CHUNKS = SLAB_BYTES // CHUNK


@dataclass(frozen=True, kw_only=True)
class Copies:
    """The copies of one thread; ``held`` are the registers they wait in."""

    place: Place
    held: Any

    @classmethod
    def of(cls, place: Place) -> Copies:
        """Return them, with registers."""
        return cls(place=place, held=registers("held", sum(place.tiles.copies), "int32x4"))

    def begin(self, step: Expr) -> None:
        """Emit what begins the copies of a step."""
        self._emit(step, ends=False)

    def end(self, step: Expr) -> None:
        """Emit what ends them."""
        self._emit(step, ends=True)

    def _emit(self, step: Expr, *, ends: bool) -> None:
        place, first, start = self.place, 0, stage(self.place, step)
        sizes = (place.tiles.x_bytes, place.tiles.stage_bytes - place.tiles.x_bytes)
        for copy, size, copies in zip((self._x, self._w), sizes, place.tiles.copies, strict=True):
            chunks = size // CHUNK
            with unrolled(copies) as i:
                chunk = i * place.threads + place.thread
                with where([chunk < chunks] if chunks % place.threads else []):
                    to = (tirx.address_of(self.held[i + first]), place.staged)
                    at = start + chunk * CHUNK
                    if ends:
                        run("end_copy_16", *to, at)
                    else:
                        copy(step, chunk, (*to, at))
            first, start = first + copies, start + size

    def _x(self, step: Expr, chunk: Expr, to: tuple[Expr, ...]) -> None:
        """Begin to copy half a pixel of a slab, or the zero point where there is none."""
        place, tiles, gemm = self.place, self.place.tiles, self.place.gemm
        slab = step * tiles.slabs + tirx.floordiv(chunk, tiles.pixels * HALVES)
        pixel = tirx.floormod(tirx.floordiv(chunk, HALVES), tiles.pixels)
        row, byte = place.first_row + pixel, tirx.floormod(chunk, HALVES) * CHUNK
        index, inside = gemm.x(place.image, row, place.group, slab, byte)
        if gemm.rows % tiles.pixels:
            inside = [row < gemm.rows, *inside]
        z = place.buffers["z"][0] & tirx.const(0xFF, "int32")
        four = z * tirx.const(0x01010101, "int32")
        self._copy(slab, inside, to, place.buffers["x"][tuple(index)], four)

    def _w(self, step: Expr, chunk: Expr, to: tuple[Expr, ...]) -> None:
        """Begin to copy a part of a slab of a block, or zero where there is none."""
        place, tiles, gemm = self.place, self.place.tiles, self.place.gemm
        slab = step * tiles.slabs + tirx.floordiv(chunk, tiles.channel_blocks * SLAB_CHUNKS)
        own = tirx.floormod(tirx.floordiv(chunk, SLAB_CHUNKS), tiles.channel_blocks)
        block = place.first_block + own
        inside = [block < gemm.blocks] if gemm.blocks % tiles.channel_blocks else []
        byte = tirx.floormod(chunk, SLAB_CHUNKS) * CHUNK
        source = place.buffers["w"][place.group * gemm.blocks + block, slab, byte]
        self._copy(slab, inside, to, source, tirx.const(0, "int32"))

    def _copy(
        self, slab: Expr, inside: list[Expr], to: tuple[Expr, ...], source: Expr, fill: Expr
    ) -> None:
        gemm = self.place.gemm
        if gemm.slabs % self.place.tiles.slabs:
            inside = [slab < gemm.slabs, *inside]
        if not inside:
            run("begin_copy_16", *to, tirx.address_of(source))
            return
        with T.If(tirx.all(*inside)):
            with T.Then():
                run("begin_copy_16", *to, tirx.address_of(source))
            with T.Else():
                run("begin_fill_16", *to, fill)


def stage(place: Place, step: Expr) -> Expr:
    """Return where the stage of a step begins in shared memory."""
    return tirx.floormod(step, place.tiles.stages) * place.tiles.stage_bytes
