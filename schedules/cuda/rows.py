"""Norms and softmax on a GPU: sixteen threads a row, one for each of the partial sums.

    x, gamma, beta, epsilon, count, s, z, clamp, y: as in ``schedules.cpu.norms.rows``

Loops:

    blockIdx.x     two rows, a warp; eight where there are many
    threadIdx.x    row of the block, lane
      elements lane, lane + 16, ...      neighbours of a row are neighbouring threads: coalesced

The partial sums of a row meet in shared memory; each thread joins all sixteen. Rows past the last
are the last once more. Softmax computes exponentials twice: that is less than to keep them.

Exact:  bit-identical to the specification: the partial sums are the lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies import rows
from schedules.bodies.buffers import flat
from schedules.bodies.prim_func import prim_func
from schedules.bodies.row_major import row_major_template
from schedules.bodies.rows import RowSpec
from schedules.cuda.device.devices import refuses_cuda
from schedules.cuda.device_math import for_cuda
from schedules.cuda.statements import barrier
from schedules.spec import Normalize, Softmax
from schedules.spec.normalizing import PARTIAL_SUMS
from schedules.spec.operator_spec import FLOAT32_MAX

ROWS_IF_FEW, ROWS_IF_MANY = 2, 8  # of a block: few rows had better have many multiprocessors
FEW_ROWS = 2048


def refuses(spec: RowSpec, target: Target) -> str | None:
    """Say why the template cannot be used, or None."""
    if isinstance(spec, Normalize) and spec.pixels:
        return "its rows are the channels of pixels"
    return refuses_cuda(target) or rows.refuses(spec)


def kernel(spec: RowSpec) -> tirx.PrimFunc:
    """Return the kernel, bound to threads already."""
    with prim_func() as builder:
        buffers = rows.declare(spec)
        count = math.prod(buffers["x"].shape) // spec.size
        with T.sblock("root"):
            T.reads()
            T.writes()
            T.sblock_attr({"template": f"{spec.kind}_cuda"})
            block_rows = rows_of_block(count)
            blocks = tirx.ceildiv(count, T.int64(block_rows))
            with (
                T.thread_binding(T.int64(0), blocks, "blockIdx.x") as block,
                T.thread_binding(
                    T.int64(0), T.int64(block_rows * PARTIAL_SUMS), "threadIdx.x"
                ) as thread,
            ):
                row_in_block, lane = thread // PARTIAL_SUMS, thread % PARTIAL_SUMS
                row = tirx.min(block * block_rows + row_in_block, count - 1)
                _EMIT[spec.kind](_Thread(spec, buffers, block_rows, row, row_in_block, lane))
    return for_cuda(builder.get())


def rows_of_block(count: Any) -> int:
    """Return how many rows a block of threads has; ``count`` may be open."""
    known = isinstance(count, int | tirx.IntImm)
    return ROWS_IF_FEW if known and int(count) <= FEW_ROWS else ROWS_IF_MANY


@dataclass(frozen=True)
class _Thread:
    """Emits what one thread does: a lane of a row, which is ``row_in_block`` in its block."""

    spec: Any
    buffers: dict[str, Any]
    block_rows: int
    row: Expr
    row_in_block: Expr
    lane: Expr

    def each(self, emit: Callable[[Expr], None]) -> None:
        """Emit a loop over the elements of the lane; ``emit`` gets where in the row they are."""
        with T.serial(T.int64(0), T.int64(-(-self.spec.size // PARTIAL_SUMS))) as i:
            element = i * PARTIAL_SUMS + self.lane
            if self.spec.size % PARTIAL_SUMS == 0:
                emit(element)
                return
            with T.If(element < self.spec.size), T.Then():
                emit(element)

    def x(self, element: Expr) -> Expr:
        """Return an element of the row."""
        return flat(self.buffers["x"])[self._place(element)]

    def write(self, element: Expr, t: Expr) -> None:
        """Store an element of y."""
        y = rows.stored(self.spec, t, self.buffers)
        T.buffer_store(flat(self.buffers["y"]), y, [self._place(element)])

    def _place(self, element: Expr) -> Expr:
        """Return where an element of the row lies: rows of a softmax may be side by side."""
        size, span = self.spec.size, self.spec.span if isinstance(self.spec, Softmax) else 1
        if span == 1:
            return self.row * size + element
        outer, column = self.row // span, self.row % span
        return (outer * size + element) * span + column

    def joined(
        self,
        start: float,
        join: Callable[[Expr, Expr], Expr],
        step: Callable[[Expr, Expr], Expr],
        source: Callable[[Expr], Expr],
    ) -> Expr:
        """Return the partial results of a row by ``step``, joined by the tree."""
        part = _memory(1, "local")
        T.buffer_store(part, tirx.const(start, "float32"), [0])
        self.each(lambda element: T.buffer_store(part, step(source(element), part[0]), [0]))
        shared = _memory(self.block_rows * PARTIAL_SUMS, "shared")
        T.buffer_store(shared, part[0], [self.row_in_block * PARTIAL_SUMS + self.lane])
        barrier()
        parts = [shared[self.row_in_block * PARTIAL_SUMS + lane] for lane in range(PARTIAL_SUMS)]
        return T.bind(rows.joined(parts, join))


def _normalize(thread: _Thread) -> None:
    spec: Normalize = thread.spec
    mean = tirx.const(0, "float32")
    if spec.centred:
        total = thread.joined(0, _sum, _sum, thread.x)
        mean = T.bind(rows.mean(total, thread.buffers))

    def _deviation(element: Expr) -> Expr:
        return rows.deviation(spec, thread.x(element), mean)

    squares = thread.joined(0, _sum, rows.square_added, _deviation)
    inv = T.bind(rows.inverse(squares, thread.buffers))
    width = spec.channels // max(spec.groups, 1)

    def _scaled(element: Expr) -> None:
        channel = element
        if spec.groups:
            channel = thread.row % spec.groups * width + element // spec.span
        gamma, beta = (thread.buffers[name][channel] for name in ("gamma", "beta"))
        thread.write(element, rows.scaled(_deviation(element), inv, gamma, beta))

    thread.each(_scaled)


def _softmax(thread: _Thread) -> None:
    top = T.bind(rows.finite(thread.joined(-FLOAT32_MAX, tirx.max, tirx.max, thread.x)))

    def _exponential(element: Expr) -> Expr:
        return rows.exponential(thread.x(element), top)

    total = thread.joined(0, _sum, _sum, _exponential)

    def _share(element: Expr) -> None:
        thread.write(element, rows.share(_exponential(element), total))

    thread.each(_share)


_EMIT: dict[str, Callable[[_Thread], None]] = {"normalize": _normalize, "softmax": _softmax}


def _sum(value: Expr, total: Expr) -> Expr:
    return total + value


def _memory(count: int, scope: str) -> Any:
    return T.sblock_alloc_buffer((T.int64(count),), "float32", scope=scope, layout=None)


NORMALIZE_CUDA = row_major_template("normalize", "normalize_cuda", refuses, kernel)
SOFTMAX_CUDA = row_major_template("softmax", "softmax_cuda", refuses, kernel)
