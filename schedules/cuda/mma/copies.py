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

from schedules.cuda.mma.sources import Source, WSources, XSources
from schedules.cuda.mma.thread import Thread
from schedules.cuda.mma.tiles import CHUNK
from schedules.cuda.statements import call, registers, run, where


@dataclass(frozen=True, kw_only=True)
class Copies:
    """The copies of one thread; ``held`` are the registers they wait in."""

    thread: Thread
    held: Any
    x: XSources
    w: WSources

    @classmethod
    def of(cls, thread: Thread) -> Copies:
        """Return them, with registers."""
        return cls(
            thread=thread,
            held=registers("held", sum(thread.tiles.copies), "int32x4"),
            x=XSources.of(thread),
            w=WSources.of(thread),
        )

    def begin(self, step: Expr) -> None:
        """Emit what begins the copies of a step."""
        self._emit(step, ends=False)

    def end(self, step: Expr) -> None:
        """Emit what ends them."""
        self._emit(step, ends=True)

    def _emit(self, step: Expr, *, ends: bool) -> None:
        thread, first = self.thread, 0
        start = stage(thread, step) + thread.number * CHUNK
        for sources in (self.x, self.w):
            with where(sources.chunks.left):
                for copy in range(sources.chunks.copies):
                    held = tirx.address_of(self.held[first + copy])
                    to = (held, thread.staged, start + copy * thread.threads * CHUNK)
                    if ends:
                        run("end_copy_16", *to)
                    else:
                        _begin(sources.source(step, copy), to)
            first, start = first + sources.chunks.copies, start + sources.chunks.count * CHUNK


def _begin(source: Source, to: tuple[Expr, ...]) -> None:
    """Emit what begins one copy."""
    at = tirx.address_of(source.buffer[source.index])
    if source.inside:
        base, fill = tirx.address_of(source.buffer[0]), tirx.address_of(source.fill)
        inside = tirx.all(*source.inside)
        at = call("source_or_fill", inside, base, source.index, fill, dtype="handle")
    run("begin_copy_16", *to, at)


def stage(thread: Thread, step: Expr) -> Expr:
    """Return where the stage of a step begins in shared memory."""
    return tirx.floormod(step, thread.tiles.stages) * thread.tiles.stage_bytes
