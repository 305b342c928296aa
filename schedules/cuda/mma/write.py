"""What follows the sums of a tensor-core kernel: requantize and write, in registers.

A thread has eight channels of a pixel: eight bytes of int8, two times sixteen of float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.epilogue import epilogue
from schedules.cuda.mma.thread import THREAD_CHANNELS, VECTOR_WORDS, Thread
from schedules.cuda.mma.tiles import MMA_ROWS, SUMS
from schedules.cuda.mma.weights import BLOCK
from schedules.cuda.statements import registers, unrolled, where
from schedules.spec import PER_CHANNEL, Dense

MULTIPLIERS = tuple(name for name in PER_CHANNEL if name != "bias")


@dataclass(frozen=True, kw_only=True)
class Writer:
    """Registers of one thread: its sums, constants, and one pixel's eight channels of r and y."""

    thread: Thread
    acc: Any
    constants: dict[str, Any]
    r: Any
    y: Any

    @classmethod
    def of(cls, thread: Thread, acc: Any) -> Writer:
        """Return it, with registers."""
        arguments, spec = thread.gemm.buffers, thread.spec
        count = thread.tiles.blocks * THREAD_CHANNELS
        return cls(
            thread=thread,
            acc=acc,
            constants={
                name: registers(f"{name}_own", count, arguments[name][1])
                for name in MULTIPLIERS
                if name in arguments
            },
            r=registers("r_own", THREAD_CHANNELS, spec.dtype("r")) if "r" in arguments else None,
            y=registers("y_own", THREAD_CHANNELS, spec.y),
        )

    def write(self) -> None:
        """Emit the write of all that the thread has summed."""
        thread, tiles, gemm = self.thread, self.thread.tiles, self.thread.gemm
        first = thread.first_block + thread.warp_block * tiles.blocks
        ragged = gemm.blocks % tiles.channel_blocks
        with unrolled(tiles.blocks) as n, where([first + n < gemm.blocks] if ragged else []):
            block = thread.group * gemm.blocks + first + n
            self._load_constants(n, block)
            with unrolled(tiles.rows) as m, unrolled(2) as half:
                own_rows = (thread.warp_row * tiles.rows + m) * MMA_ROWS + half * (MMA_ROWS // 2)
                row = thread.first_row + own_rows + thread.g
                with where([row < gemm.rows] if gemm.rows % tiles.pixels else []):
                    start = (m * tiles.blocks + n) * SUMS + half * THREAD_CHANNELS
                    self._write_pixel(
                        row, block * BLOCK + thread.first_channel, n * THREAD_CHANNELS, start
                    )

    def _load_constants(self, n: Expr, block: Expr) -> None:
        for name, own in self.constants.items():
            with (
                unrolled(THREAD_CHANNELS // VECTOR_WORDS) as i,
                T.vectorized(T.int64(0), T.int64(VECTOR_WORDS)) as c,
            ):
                channel = i * VECTOR_WORDS + c
                value = self.thread.buffers[name][block, self.thread.first_channel + channel]
                T.buffer_store(own, value, [n * THREAD_CHANNELS + channel])

    def _write_pixel(self, row: Expr, channel: Expr, constant: Expr, start: Expr) -> None:
        """Write eight channels of one pixel."""
        thread, spec = self.thread, self.thread.spec
        if self.r is not None:
            with T.vectorized(T.int64(0), T.int64(THREAD_CHANNELS)) as c:
                index = thread.gemm.y(thread.image, row, channel + c)
                T.buffer_store(self.r, thread.buffers["r"][tuple(index)], [c])
        with unrolled(THREAD_CHANNELS) as c:

            def _load(name: str, element: int | None = None) -> Expr:
                if element is None:
                    return self.constants[name][constant + c]
                return thread.buffers[name][element]

            r = None if self.r is None else self.r[c]
            value = epilogue(spec, self.acc[start + c], _load, r)
            T.buffer_store(self.y, self._clear_tail(channel + c, value), [c])
        self._store(row, channel)

    def _clear_tail(self, channel: Expr, value: Expr) -> Expr:
        """Put zero into float lanes past the last channel."""
        spec = self.thread.spec
        if isinstance(spec, Dense) or spec.y != "float32" or spec.out_channels % BLOCK == 0:
            return value
        return tirx.Select(channel < spec.out_channels, value, tirx.const(0, "float32"))

    def _store(self, row: Expr, channel: Expr) -> None:
        """Store eight channels at once, or one by one where rows of y are no multiple of them."""
        thread, count = self.thread, self.thread.gemm.channels
        width = VECTOR_WORDS if thread.spec.y == "float32" else THREAD_CHANNELS
        if count is not None and count % THREAD_CHANNELS:
            width = 1
        with unrolled(THREAD_CHANNELS // width) as i:
            keep = [channel + i * width < count] if count is not None else []
            with where(keep), T.vectorized(T.int64(0), T.int64(width)) as c:
                index = thread.gemm.y(thread.image, row, channel + i * width + c)
                T.buffer_store(thread.buffers["y"], self.y[i * width + c], index)
