"""LayerNorm of the channels of each pixel on a CPU, which lie in blocks.

    x     : float32, NCHW16c, whole blocks
    y     : float32, int8 or uint8, NCHW16c
    gamma, beta float32 (channels,), epsilon, count float32 (1,)
    s float32 (1,), z int32 (1,), clamp float32 (2,)                      integer y

Loops after scheduling (p parallel):

    p:image * pixels        some neighbours, unrolled
      sums, squares, y        block by block

The sixteen partial sums of a row are the lanes of a block.

Exact:  bit-identical to the specification: sums are of the same numbers in the same order.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies import rows
from schedules.bodies.body import template_name
from schedules.bodies.buffers import flat, ramp, whole
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.vectors import splat
from schedules.cpu.lanes import joined
from schedules.layout import NCHW16C
from schedules.spec import Normalize

LANES = NCHW16C.block
PIXELS = 4  # whose sums do not wait for each other, and fill half of the registers of AVX2


def kernel(spec: Normalize) -> tirx.PrimFunc:
    """Return the unscheduled kernel: one block of loops, neighbouring pixels each."""
    size = math.prod(spec.dims[2:])
    pixels = min(size, PIXELS)
    tasks = -(-size // pixels)
    with prim_func() as builder:
        buffers = rows.declare(spec, NCHW16C)
        count = math.prod(buffers["x"].shape) // (spec.channels * size) * tasks
        with T.sblock("root"), T.serial(count) as loop, T.sblock("pixels"):
            (task,) = axes("pixels", [count], [loop])
            T.reads(*(whole(buffer) for name, buffer in buffers.items() if name != "y"))
            T.writes(whole(buffers["y"]))
            T.sblock_attr({"template": template_name(spec.kind)})
            # The last task of an image begins early, so that it is whole.
            pixel = tirx.min(task % tasks * pixels, T.int64(size - pixels))
            first = task // tasks * (spec.channels * size) + pixel * LANES
            _Pixels(spec, buffers, first, pixels).emit()
    return builder.get()


class _Pixels:
    """Emits neighbouring pixels, of which the first element of the first one is at ``first``."""

    def __init__(self, spec: Normalize, buffers: dict[str, Any], first: Expr, count: int) -> None:
        self.spec, self.buffers, self.first, self.count = spec, buffers, first, count
        self.x, self.y = flat(buffers["x"]), flat(buffers["y"])
        self.blocks = spec.channels // LANES
        self.sums = T.sblock_alloc_buffer((T.int64(count * LANES),), "float32", layout=None)

    def emit(self) -> None:
        """Emit means, factors and elements."""
        zero = tirx.const(0, "float32")
        means = [zero] * self.count
        if self.spec.centred:
            totals = self._totals(lambda _pixel, x, total: total + x)
            means = [T.bind(rows.mean(total, self.buffers)) for total in totals]

        def _deviation(pixel: int, x: Expr) -> Expr:
            return rows.deviation(self.spec, x, means[pixel])

        squares = self._totals(lambda i, x, total: rows.square_added(_deviation(i, x), total))
        factors = [T.bind(rows.inverse(square, self.buffers)) for square in squares]
        with T.serial(T.int64(0), T.int64(self.blocks)) as block:
            here = ramp(LANES, block * LANES)
            gamma, beta = (T.bind(self.buffers[name][here]) for name in ("gamma", "beta"))
            for pixel, inv in enumerate(factors):
                place = self._place(block, pixel)
                t = rows.scaled(_deviation(pixel, self.x[place]), inv, gamma, beta)
                T.buffer_store(self.y, rows.stored(self.spec, t, self.buffers), [place])

    def _totals(self, step: Callable[[int, Expr, Expr], Expr]) -> list[Expr]:
        """Return the partial results of each pixel by ``step``, joined by the tree."""
        parts = [ramp(LANES, T.int64(pixel * LANES)) for pixel in range(self.count)]
        for part in parts:
            T.buffer_store(self.sums, splat(0, "float32", LANES), [part])
        with T.serial(T.int64(0), T.int64(self.blocks)) as block:
            for pixel, part in enumerate(parts):
                x = self.x[self._place(block, pixel)]
                T.buffer_store(self.sums, step(pixel, x, self.sums[part]), [part])
        return [joined(self.sums[part], operator.add) for part in parts]

    def _place(self, block: Expr, pixel: int) -> Expr:
        pixels = math.prod(self.spec.dims[2:])
        return ramp(LANES, self.first + block * (pixels * LANES) + pixel * LANES)
