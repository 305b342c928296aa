"""InstanceNorm of blocks of channels on a CPU: sixteen channels at once, a lane each.

    x     : float32, NCHW16c, whole blocks
    y     : float32, int8 or uint8, NCHW16c
    gamma, beta float32 (channels,), epsilon, count float32 (1,)
    s float32 (1,), z int32 (1,), clamp float32 (2,)                      integer y

Loops after scheduling (p parallel):

    p:image * block
      sums, squares, y        pixel by pixel

The sixteen partial sums of each channel are sixteen vectors of channels.

Exact:  bit-identical to the specification: sums are of the same numbers in the same order.
"""

from __future__ import annotations

import math
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
from schedules.layout import NCHW16C
from schedules.spec import Normalize
from schedules.spec.normalizing import PARTIAL_SUMS

LANES = NCHW16C.block


def computes(spec: Normalize) -> bool:
    """Say whether the rows of ``spec`` are the channels of images that have whole blocks."""
    if len(spec.dims) != 4 or spec.groups != spec.dims[1]:
        return False
    return spec.channels % LANES == 0


def kernel(spec: Normalize) -> tirx.PrimFunc:
    """Return the unscheduled kernel: one block of loops, a block of channels each."""
    with prim_func() as builder:
        buffers = rows.declare(spec, NCHW16C)
        count = math.prod(buffers["x"].shape) // (spec.size * LANES)
        with T.sblock("root"), T.serial(count) as loop, T.sblock("channels"):
            (task,) = axes("channels", [count], [loop])
            T.reads(*(whole(buffer) for name, buffer in buffers.items() if name != "y"))
            T.writes(whole(buffers["y"]))
            T.sblock_attr({"template": template_name(spec.kind)})
            _Channels(spec, buffers, task).emit()
    return builder.get()


class _Channels:
    """Emits a block of channels of an image."""

    def __init__(self, spec: Normalize, buffers: dict[str, Any], task: Expr) -> None:
        self.spec, self.buffers = spec, buffers
        self.x, self.y = flat(buffers["x"]), flat(buffers["y"])
        self.first = task * (spec.size * LANES)
        self.channel = task % (spec.channels // LANES) * LANES
        self.sums = T.sblock_alloc_buffer((T.int64(PARTIAL_SUMS * LANES),), "float32", layout=None)

    def emit(self) -> None:
        """Emit means, factors and elements."""
        mean = T.bind(rows.mean(self._total(lambda x, total: total + x), self.buffers))

        def _deviation(x: Expr) -> Expr:
            return rows.deviation(self.spec, x, mean)

        squares = self._total(lambda x, total: rows.square_added(_deviation(x), total))
        inv = T.bind(rows.inverse(squares, self.buffers))
        gamma, beta = (
            T.bind(self.buffers[name][ramp(LANES, self.channel)]) for name in ("gamma", "beta")
        )
        with T.serial(T.int64(0), T.int64(self.spec.size)) as pixel:
            t = rows.scaled(_deviation(self._pixel(pixel)), inv, gamma, beta)
            T.buffer_store(self.y, rows.stored(self.spec, t, self.buffers), [self._place(pixel)])

    def _total(self, step: Callable[[Expr, Expr], Expr]) -> Expr:
        """Return the partial results of the channels by ``step``, joined by the tree."""
        parts = [ramp(LANES, T.int64(part * LANES)) for part in range(PARTIAL_SUMS)]
        for part in parts:
            T.buffer_store(self.sums, splat(0, "float32", LANES), [part])
        full, rest = divmod(self.spec.size, PARTIAL_SUMS)
        with T.serial(T.int64(0), T.int64(full)) as i:
            for number, part in enumerate(parts):
                x = self._pixel(i * PARTIAL_SUMS + number)
                T.buffer_store(self.sums, step(x, self.sums[part]), [part])
        for number, part in enumerate(parts[:rest]):
            x = self._pixel(T.int64(full * PARTIAL_SUMS + number))
            T.buffer_store(self.sums, step(x, self.sums[part]), [part])
        return rows.joined([self.sums[part] for part in parts])

    def _pixel(self, pixel: Expr) -> Expr:
        return self.x[self._place(pixel)]

    def _place(self, pixel: Expr) -> Expr:
        return ramp(LANES, self.first + pixel * LANES)
