"""Convolution to six channels or fewer, for instructions that sum neighbouring products.

    x    : (n, c/16, h, w, 16)              NCHW16c
    r, y : (n, oc, h, w)                    row major
    w    : (oc, c/16, kh, kw, 16)           the 16 weights of a tap are all of a block's
    bias : (oc,), the zero point of x folded in; m, m_neg, alpha alike

Where a lane is an output channel, a kernel for one to six of them leaves most lanes idle. Here a
vector of x is some neighbouring pixels of 16 channels, as many as a lane sums products in one step.
It meets the same 16 weights once for each pixel. A lane has a part of a pixel's sum, and the parts
are added at the end:

    p:n*rows    some rows of y
      copy      the rows of x that they read, with their border, as the instruction takes them
      row  16 pixels
        c/16  kh  kw     vectors of pixels by oc weights; as many vectors as registers hold sums of
        oc               parts added, epilogue, one store

Without a border, x is read where it lies if the instruction takes it so, or if the kernel is of
single pixels. Convolutions of single pixels read an image whose rows are short as one row.

Exact:  integers always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import constants, fold_zero_point, int64
from schedules.bodies.buffers import allocate, declare_arguments, flat, ramp, whole
from schedules.bodies.epilogue import epilogue, type_refusal
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.vectors import broadcast, cast, splat
from schedules.cpu.contractions.narrow_tiles import Flavour, Geometry
from schedules.cpu.dot import LANES
from schedules.cpu.lanes import shuffle
from schedules.cpu.tiles.conv_arguments import image
from schedules.cpu.tiles.padded_rows import PaddedRow
from schedules.layout import NCHW16C, ROW
from schedules.spec import Conv2d
from schedules.template import Arrays, Layouts, ScheduleTemplate

TASK = "rows"
WIDEST = 6  # output channels
SERIAL_STEPS = 1 << 12  # vector steps; fewer are not worth waking other threads


def _refusal(spec: Conv2d, flavour: Flavour, target: Target) -> str | None:
    """Say why the template cannot be used, or is no gain, or None."""
    if refusal := flavour.lanes.dot.refuses(spec.x, target) or type_refusal(spec):
        return refusal
    if spec.strides != (1, 1) or spec.groups != 1:
        return f"strides {spec.strides} and groups {spec.groups}; want neighbouring pixels, 1 group"
    if spec.out_channels > WIDEST:
        return f"{spec.out_channels} output channels; want at most {WIDEST}"
    if (width := Geometry.of(spec, flavour).width) < LANES:
        return f"rows of {width} pixels; want at least {LANES}"
    return None


def _kernel(spec: Conv2d, flavour: Flavour) -> tirx.PrimFunc:
    """Return the PrimFunc."""
    channels, blocks = spec.out_channels, -(-spec.in_channels // LANES)
    shapes: dict[str, Any] = {
        **{name: (spec.shape(name), spec.dtype(name)) for name in (*spec.tensors, "y")},
        **constants(spec, (channels,)),
        "x": (image(spec, "x"), spec.x),
        "w": ((channels, blocks, *spec.kernel, LANES), flavour.lanes.weights),
    }
    with prim_func(estimated_flops=2 * replace(spec, batch=1).multiplications) as builder:
        buffers = declare_arguments({n: shapes[n] for n in (*spec.tensors, *spec.params, "y")})
        with T.sblock("root"):
            _Emitter(spec, flavour, buffers).emit()
    return builder.get()


class _Emitter:
    """Emits the loops of a kernel into the IRBuilder that is open."""

    def __init__(self, spec: Conv2d, flavour: Flavour, buffers: dict[str, Any]) -> None:
        self.spec, self.flavour, self.buffers = spec, flavour, buffers
        self.geometry = Geometry.of(spec, flavour)
        self.elements = flavour.pixels * LANES  # of a vector of x
        self.blocks = -(-spec.in_channels // LANES)
        self.y, self.r = (flat(buffers[t]) if t in buffers else None for t in "yr")

    def emit(self) -> None:
        """Emit a task for some rows of each image."""
        geometry = self.geometry
        count = geometry.tasks * self.spec.batch
        with T.serial(*int64([count])) as loop, T.sblock(TASK):
            (task,) = axes("task", int64([count]), [loop])
            T.reads(*(whole(buffer) for name, buffer in self.buffers.items() if name != "y"))
            T.writes(whole(self.buffers["y"]))
            T.sblock_attr({"template": self.flavour.name})
            n, tiles = task // geometry.tasks, -(-geometry.width // LANES)
            last = T.int64(geometry.height - geometry.rows)
            top = tirx.min(task % geometry.tasks * geometry.rows, last)
            pixels = self._in_place(n, top) if geometry.copied is None else self._copy(n, top)
            with T.serial(T.int64(geometry.rows)) as row, T.serial(T.int64(tiles)) as tile:
                column = tirx.min(tile * LANES, T.int64(geometry.width - LANES))
                self._tile(n, top + row, column, lambda c, i, j: pixels(c, row + i, j))

    def _in_place(self, n: Expr, top: Expr) -> Callable[[Expr, Expr, Expr], Expr]:
        """Return what reads a vector of pixels where they lie."""
        spec, x = self.spec, flat(self.buffers["x"])
        size, width = spec.height * spec.width, self.geometry.x_width

        def _pixels(c: Expr, row: Expr, column: Expr) -> Expr:
            pixel = (n * self.blocks + c) * size + (top + row) * width + column
            value = x[ramp(self.elements, pixel * LANES)]
            return cast(value, self.flavour.lanes.staged or spec.x)

        return _pixels

    def _copy(self, n: Expr, top: Expr) -> Callable[[Expr, Expr, Expr], Expr]:
        """Copy the rows of a task with their border; return what reads a vector of them."""
        spec, geometry, dtype = self.spec, self.geometry, self.geometry.copied
        assert dtype is not None
        height, width = geometry.rows + geometry.reach[0], geometry.x_width
        rows = allocate("rows", (self.blocks * height * width * LANES,), dtype)
        x = flat(self.buffers["x"])
        left, inner = PaddedRow.reach(width, spec.padding[1], spec.width)
        with T.serial(T.int64(self.blocks)) as c, T.serial(T.int64(height)) as row:
            start, source = (c * height + row) * width, top + row - spec.padding[0]
            first = ((n * self.blocks + c) * spec.height + source) * spec.width

            def _load(pixel: Expr, lanes: int) -> Expr:
                return cast(x[ramp(lanes, (first + pixel) * LANES)], dtype)

            def _store(pixel: Expr, lanes: int, value: Expr) -> None:
                T.buffer_store(rows, value, [ramp(lanes, (start + pixel) * LANES)])

            copied = PaddedRow(
                width=width, left=left, inner=inner, dtype=dtype, load=_load, store=_store
            )
            exists = tirx.all(source >= 0, source < spec.height)
            copied.emit(exists, self.buffers["z"][0].astype(dtype))

        def _pixels(c: Expr, row: Expr, column: Expr) -> Expr:
            pixel = (c * height + row) * width + column
            return rows[ramp(self.elements, pixel * LANES)]

        return _pixels

    def _tile(
        self, n: Expr, row: Expr, column: Expr, pixels: Callable[[Expr, Expr, Expr], Expr]
    ) -> None:
        """Emit 16 neighbouring pixels of y, all channels; ``pixels`` reads from taps on."""
        channels, vectors = self.spec.out_channels, self.flavour.vectors
        together = self.flavour.together(channels)
        sums: list[list[Expr]] = [[] for _ in range(channels)]
        for first in range(0, vectors, together):
            computed = self._sums(column + first * self.flavour.pixels, together, pixels)
            for of_channel, values in zip(sums, computed, strict=True):
                of_channel.extend(values)
        for channel, of_channel in enumerate(sums):
            self._write(n, channel, (row, column), of_channel)

    def _sums(
        self, column: Expr, vectors: int, pixels: Callable[[Expr, Expr, Expr], Expr]
    ) -> list[list[Expr]]:
        """Emit the sums of neighbouring vectors of pixels; return them by channel and vector."""
        spec, flavour = self.spec, self.flavour
        sums = [[_accumulator() for _ in range(vectors)] for _ in range(spec.out_channels)]
        (kernel_rows, kernel_columns), (down, across) = spec.kernel, spec.dilation
        with (
            T.serial(T.int64(self.blocks)) as c,
            T.serial(T.int64(kernel_rows)) as i,
            T.serial(T.int64(kernel_columns)) as j,
        ):
            tap = [
                T.Bind(pixels(c, i * down, column + j * across + vector * flavour.pixels))
                for vector in range(vectors)
            ]
            for channel, of_channel in enumerate(sums):
                w = self.buffers["w"][T.int64(channel), c, i, j, ramp(LANES)]
                weights = T.Bind(shuffle(w, list(range(LANES)) * flavour.pixels))
                for acc, x in zip(of_channel, tap, strict=True):
                    product = flavour.lanes.step(acc[ramp(LANES)], x, weights)
                    T.buffer_store(acc, product, [ramp(LANES)])
        return [[T.Bind(acc[ramp(LANES)]) for acc in of_channel] for of_channel in sums]

    def _write(
        self, n: Expr, channel: int, corner: tuple[Expr, Expr], sums: Sequence[Expr]
    ) -> None:
        """Emit 16 pixels of one channel: parts added, epilogue, store."""
        spec, geometry = self.spec, self.geometry

        def _load(name: str, index: int | None = None) -> Expr:
            value = self.buffers[name][channel if index is None else index]
            return broadcast(value, LANES) if index is None else value

        total = T.Bind(_load("bias") + _parts_added(sums))
        row = (n * spec.out_channels + channel) * geometry.height + corner[0]
        here = ramp(LANES, row * geometry.width + corner[1])
        r = None if self.r is None else self.r[here]
        T.buffer_store(self.y, epilogue(spec, total, _load, r), [here])


def _parts_added(vectors: Sequence[Expr]) -> Expr:
    """Return the sum of each pixel, of which vectors have the parts in neighbouring lanes."""
    while len(vectors) > 1:
        vectors = [
            T.Bind(
                tirx.Shuffle([a, b], list(range(0, 2 * LANES, 2)))
                + tirx.Shuffle([a, b], list(range(1, 2 * LANES, 2)))
            )
            for a, b in zip(vectors[::2], vectors[1::2], strict=True)
        ]
    return vectors[0]


def _accumulator() -> Any:
    acc = allocate("acc", (LANES,), "int32")
    T.buffer_store(acc, splat(0, "int32", LANES), [ramp(LANES)])
    return acc


def _pack(spec: Conv2d, params: Arrays, dtype: str) -> Arrays:
    """Return the constants as the kernel reads them: weights by output channel and block."""
    w = params["w"]
    w = np.pad(w, ((0, 0), (0, -w.shape[1] % LANES), (0, 0), (0, 0)))
    w = w.reshape(len(w), -1, LANES, *spec.kernel).transpose(0, 1, 3, 4, 2)
    return {**fold_zero_point(spec, params), "w": np.ascontiguousarray(w, dtype)}


def _layouts(spec: Conv2d, _wanted: Layouts) -> Layouts:
    others = (ROW,) * (len(spec.tensors) - 1)
    return Layouts(inputs=(NCHW16C, *others), output=ROW)


def _schedule(sch: Schedule, spec: Conv2d, flavour: Flavour) -> None:
    """Share the tasks of a large image among threads."""
    steps = replace(spec, batch=1).multiplications // (flavour.pixels * LANES)
    if not isinstance(spec.batch, int) or steps * spec.batch >= SERIAL_STEPS:
        sch.parallel(sch.get_loops(sch.get_sblock(TASK))[0])


def narrow_template(flavour: Flavour) -> ScheduleTemplate:
    """Return the template of an instruction, "conv2d_narrow_<name>"."""

    def _default(sch: Schedule, spec: Conv2d, _target: Target) -> None:
        _schedule(sch, spec, flavour)

    return ScheduleTemplate(
        name=flavour.name,
        kind="conv2d",
        refuses=lambda spec, target: _refusal(spec, flavour, target),
        layouts=_layouts,
        kernel=lambda spec, _layouts: _kernel(spec, flavour),
        default=_default,
        space=_default,
        pack=lambda spec, params: _pack(spec, params, flavour.lanes.weights),
    )
