"""Grouped convolution of any group structure, a pixel of 16 channels at a time: correct, slow.

    x, r, y : (n, c/16, h, w, 16)               NCHW16c
    w       : (oc/16, kh, kw, ic/groups, 16)    int8, int16 or float32, zero past the last channel
    bias    : (oc/16, 16)                       the accumulators start with it

For the groups that the other templates refuse: channel multipliers, groups that straddle blocks.
Each lane gathers the input channels of its own group; taps outside the image are skipped.

Loops:  p:n*c*h  w   kh  kw  ic   lane
Exact:  int32 sums; float32 by fma in ascending order of (row, column, channel), from the bias on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.bodies.buffers import ramp
from schedules.bodies.epilogue import epilogue, type_refusal
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.vectors import fma
from schedules.cpu.dot import F32, PLAIN, Dot
from schedules.cpu.tiles.conv_arguments import (
    LANES,
    blocked,
    channel_blocks,
    clear_tail,
    declare,
    image,
    pack_with,
)
from schedules.spec import PER_CHANNEL, Conv2d
from schedules.template import Arrays, Layouts, ScheduleTemplate

ANY_GROUP = "conv2d_any_group"
BLOCK = "pixels"


def kernel(name: str, spec: Conv2d, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled PrimFunc: one block of pixels."""
    inputs = spec.in_channels // spec.groups
    shape = (-(-spec.out_channels // LANES), *spec.kernel, inputs, LANES)
    batch = spec.batch if isinstance(spec.batch, int) else 1
    flops = 2 * batch * prod(shape) * prod(spec.out_size)
    with prim_func(estimated_flops=flops) as builder:
        buffers = declare(spec, shape, spec.constant_dtype("w"))
        with T.sblock("root"):
            _Emitter(spec, buffers).emit(name)
    return builder.get()


@dataclass(frozen=True)
class _Emitter:
    """Emits the block into the IRBuilder that is open."""

    spec: Conv2d
    buffers: dict[str, Any]

    def emit(self, name: str) -> None:
        """Sum in 16 lanes, and store them; ``name`` is the template's."""
        y, extents = self.buffers["y"], image(self.spec, "y")[:-1]
        with T.grid(*extents) as loops, T.sblock(BLOCK):
            position = axes("n c h w", extents, loops)
            T.reads(*self._reads(position))
            T.writes(y[(*position, slice(0, LANES))])
            T.sblock_attr({"template": name})
            acc = T.sblock_alloc_buffer((LANES,), self.buffers["bias"].dtype, layout=None)
            IRBuilder.name("acc", acc)
            T.buffer_store(acc, self._load(position[1], "bias"), [ramp(LANES)])
            self._sum(acc, position)
            r = self.buffers["r"][(*position, ramp(LANES))] if self.spec.residual else None
            value = epilogue(self.spec, acc[ramp(LANES)], partial(self._load, position[1]), r)
            T.buffer_store(y, clear_tail(self.spec, position[1], value), [*position, ramp(LANES)])

    def _load(self, c: Expr, name: str, index: int | None = None) -> Expr:
        buffer = self.buffers[name]
        return buffer[c, ramp(LANES)] if index is None else buffer[index]

    def _reads(self, position: list[Any]) -> list[Any]:
        """Return all that a pixel reads; of x, more than it does."""
        n, c, _h, _w = position
        regions = []
        for name, buffer in self.buffers.items():
            rest = [slice(0, extent) for extent in buffer.shape]
            if name == "x":
                regions.append(buffer[(n, *rest[1:])])
            elif name == "r":
                regions.append(buffer[(*position, rest[-1])])
            elif name != "y":
                lead = [c] if name == "w" or name in PER_CHANNEL else rest[:1]
                regions.append(buffer[(*lead, *rest[1:])])
        return regions

    def _sum(self, acc: Any, position: list[Any]) -> None:
        """Add the products of the taps that lie in the image."""
        spec, (n, c, h, w) = self.spec, position
        (top, left), (sh, sw), (dh, dw) = spec.padding[:2], spec.strides, spec.dilation
        inputs = spec.in_channels // spec.groups
        with T.grid(*int64(spec.kernel)) as (kh, kw):
            h_x, w_x = h * sh + kh * dh - top, w * sw + kw * dw - left
            inside = tirx.all(h_x >= 0, h_x < spec.height, w_x >= 0, w_x < spec.width)
            with T.If(inside), T.Then(), T.grid(*int64((inputs, LANES))) as (channel, lane):
                first = self._group(c * LANES + lane) * inputs
                source = first + channel
                x = self.buffers["x"][n, source // LANES, h_x, w_x, source % LANES]
                weight = self.buffers["w"][c, kh, kw, channel, lane]
                T.buffer_store(acc, self._step(acc[lane], x, weight), [lane])

    def _group(self, channel: Expr) -> Expr:
        """Return the group of an output channel; lanes past the last are with the last group."""
        last = T.int64(self.spec.out_channels - 1)
        outputs = self.spec.out_channels // self.spec.groups
        return tirx.min(channel, last) // outputs

    def _step(self, acc: Expr, x: Expr, w: Expr) -> Expr:
        if self.spec.x == "float32":
            return fma(x, w, acc)
        return acc + (x.astype("int32") - self.buffers["z"][0]) * w.astype("int32")


def pack(spec: Conv2d, params: Arrays) -> Arrays:
    """Repack w (oc, ic/groups, kh, kw) as (oc/16, kh, kw, ic/groups, 16)."""
    weights = channel_blocks(params["w"]).transpose(0, 3, 4, 2, 1)
    return pack_with(np.ascontiguousarray(weights), params)


def default(sch: Schedule, spec: Conv2d, target: Target) -> None:
    """Share out the rows; there is nothing to tile."""
    n, c, h, _w = sch.get_loops(sch.get_sblock(BLOCK))
    sch.parallel(sch.fuse(n, c, h))


def _template(dot: Dot, name: str) -> ScheduleTemplate:
    return ScheduleTemplate(
        name=name,
        kind="conv2d",
        refuses=lambda spec, target: (
            dot.refuses(spec.x, target) or type_refusal(spec, weights=spec.weights)
        ),
        layouts=blocked,
        kernel=partial(kernel, name),
        default=default,
        space=default,
        pack=pack,
    )


CONV2D_ANY_GROUP = _template(PLAIN, ANY_GROUP)
CONV2D_ANY_GROUP_F32 = _template(F32, "conv2d_any_group_f32")
