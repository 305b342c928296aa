"""Convolution to six channels or fewer, u8 x s8 -> s32, on AVX-512 VNNI: pixels are lanes too.

    x    : (n, c/16, h, w, 16)              NCHW16c
    r, y : (n, oc, h, w)                    row major
    w    : (oc, c/16, kh, kw, 16)           the 16 weights of a tap are all of a block's
    bias : (oc,), the zero point of x folded in; m, m_neg, alpha alike

Where a lane is an output channel, a kernel for one to six of them leaves most lanes idle. Here a
register of x is four neighbouring pixels of 16 channels, which meets the same 16 weights four
times; a lane sums a quarter of a pixel's channels, and the quarters are added at the end:

    p:n*rows    some rows of y
      pad       the rows of x that they read, with their border: only where there is one
      row  16 pixels
        c/16  kh  kw     4 registers of pixels by oc weights
        oc               quarters added, epilogue, one store

Convolutions of single pixels read an image whose rows are short as one row.

Exact:  integers always.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.script.ir_builder import IRBuilder
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import constants, fold_zero_point, int64
from schedules.bodies.buffers import declare_arguments, flat, ramp, whole
from schedules.bodies.epilogue import broadcast, epilogue, type_refusal
from schedules.bodies.prim_func import axes, prim_func
from schedules.cpu.conv_arguments import image
from schedules.cpu.dot import LANES
from schedules.cpu.lanes import shuffle
from schedules.cpu.padded_rows import PaddedRow
from schedules.layout import NCHW16C, ROW
from schedules.spec import Conv2d
from schedules.template import Arrays, Layouts, ScheduleTemplate
from schedules.x86.lanes import VNNI_LANES

NAME = "conv2d_narrow_vnni"
TASK = "rows"
WIDEST = 6  # output channels: 24 registers of sums
QUARTERS = VNNI_LANES.dot.width  # lanes of a pixel, and pixels of a register
PADDED_BYTES = 1 << 18  # of the rows of a task with their border: a part of an L2 cache
MOST_ROWS = 8  # of a task
SERIAL_STEPS = 1 << 12  # vector steps; fewer are not worth waking other threads


@dataclass(frozen=True)
class Geometry:
    """Rows and columns of y as the loops see them, and how a task deals them out.

    Parameters
    ----------
    height, width
        Of y; a convolution of single pixels has one row where an image's are short.
    rows
        Rows of a task.
    reach
        Rows and columns of x beside the first that a pixel of y reads.
    padded
        Whether x has a border.
    """

    height: int
    width: int
    rows: int
    reach: tuple[int, int]
    padded: bool

    @classmethod
    def of(cls, spec: Conv2d) -> Geometry:
        """Return those of a convolution."""
        (height, width), padded = spec.out_size, any(spec.padding)
        (down, across) = ((k - 1) * d for k, d in zip(spec.kernel, spec.dilation, strict=True))
        if width < LANES and not (down or across or padded):
            height, width = 1, height * width
        row = (width + across) * -(-spec.in_channels // LANES) * LANES
        rows = max(1, min(PADDED_BYTES // row - down, MOST_ROWS)) if padded else MOST_ROWS
        count = -(-height // rows)
        return cls(height, width, -(-height // count), (down, across), padded)

    @property
    def x_width(self) -> int:
        """Pixels of a row of x, with its border."""
        return self.width + self.reach[1]

    @property
    def tasks(self) -> int:
        """Tasks of an image; the last begins early enough that all of its rows exist."""
        return -(-self.height // self.rows)


def refuses(spec: Conv2d, target: Target) -> str | None:
    """Say why the template cannot be used, or is no gain, or None."""
    if refusal := VNNI_LANES.dot.refuses(spec.x, target) or type_refusal(spec):
        return refusal
    if spec.strides != (1, 1) or spec.groups != 1:
        return f"strides {spec.strides} and groups {spec.groups}; want neighbouring pixels, 1 group"
    if spec.out_channels > WIDEST:
        return f"{spec.out_channels} output channels; want at most {WIDEST}"
    if (width := Geometry.of(spec).width) < LANES:
        return f"rows of {width} pixels; want at least {LANES}"
    return None


def kernel(spec: Conv2d, _layouts: Layouts) -> tirx.PrimFunc:
    """Return the PrimFunc."""
    channels, blocks = spec.out_channels, -(-spec.in_channels // LANES)
    shapes: dict[str, Any] = {
        **{name: (spec.shape(name), spec.dtype(name)) for name in (*spec.tensors, "y")},
        **constants(spec, (channels,)),
        "x": (image(spec, "x"), spec.x),
        "w": ((channels, blocks, *spec.kernel, LANES), "int8"),
    }
    with prim_func(estimated_flops=2 * replace(spec, batch=1).multiplications) as builder:
        buffers = declare_arguments({n: shapes[n] for n in (*spec.tensors, *spec.params, "y")})
        with T.sblock("root"):
            _Emitter(spec, Geometry.of(spec), buffers).emit()
    return builder.get()


class _Emitter:
    """Emits the loops of a kernel into the IRBuilder that is open."""

    def __init__(self, spec: Conv2d, geometry: Geometry, buffers: dict[str, Any]) -> None:
        self.spec, self.geometry, self.buffers = spec, geometry, buffers
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
            T.sblock_attr({"template": NAME})
            n, tiles = task // geometry.tasks, -(-geometry.width // LANES)
            last = T.int64(geometry.height - geometry.rows)
            top = tirx.min(task % geometry.tasks * geometry.rows, last)
            pixels = self._padded(n, top) if geometry.padded else self._unpadded(n, top)
            with T.serial(T.int64(geometry.rows)) as row, T.serial(T.int64(tiles)) as tile:
                column = tirx.min(tile * LANES, T.int64(geometry.width - LANES))
                self._tile(n, top + row, column, lambda c, i, j: pixels(c, row + i, column + j))

    def _unpadded(self, n: Expr, top: Expr) -> Callable[[Expr, Expr, Expr], Expr]:
        """Return what reads a register of pixels where they lie."""
        spec, x = self.spec, flat(self.buffers["x"])
        size, width = spec.height * spec.width, self.geometry.x_width

        def _pixels(c: Expr, row: Expr, column: Expr) -> Expr:
            pixel = (n * self.blocks + c) * size + (top + row) * width + column
            return x[ramp(QUARTERS * LANES, pixel * LANES)]

        return _pixels

    def _padded(self, n: Expr, top: Expr) -> Callable[[Expr, Expr, Expr], Expr]:
        """Copy the rows of a task with their border; return what reads a register of them."""
        spec, geometry = self.spec, self.geometry
        height, width = geometry.rows + geometry.reach[0], geometry.x_width
        shape = int64((self.blocks * height * width * LANES,))
        rows = IRBuilder.name("rows", T.sblock_alloc_buffer(shape, spec.x, layout=None))
        x = flat(self.buffers["x"])
        left, inner = PaddedRow.reach(width, spec.padding[1], spec.width)
        with T.serial(T.int64(self.blocks)) as c, T.serial(T.int64(height)) as row:
            start, source = (c * height + row) * width, top + row - spec.padding[0]
            first = ((n * self.blocks + c) * spec.height + source) * spec.width

            def _load(pixel: Expr, lanes: int) -> Expr:
                return x[ramp(lanes, (first + pixel) * LANES)]

            def _store(pixel: Expr, lanes: int, value: Expr) -> None:
                T.buffer_store(rows, value, [ramp(lanes, (start + pixel) * LANES)])

            copied = PaddedRow(
                width=width, left=left, inner=inner, dtype=spec.x, load=_load, store=_store
            )
            exists = tirx.all(source >= 0, source < spec.height)
            copied.emit(exists, self.buffers["z"][0].astype(spec.x))

        def _pixels(c: Expr, row: Expr, column: Expr) -> Expr:
            pixel = (c * height + row) * width + column
            return rows[ramp(QUARTERS * LANES, pixel * LANES)]

        return _pixels

    def _tile(
        self, n: Expr, row: Expr, column: Expr, pixels: Callable[[Expr, Expr, Expr], Expr]
    ) -> None:
        """Emit 16 neighbouring pixels of y, all channels; ``pixels`` reads from taps on."""
        spec, registers = self.spec, range(LANES // QUARTERS)
        sums = [[_accumulator() for _ in registers] for _ in range(spec.out_channels)]
        (kernel_rows, kernel_columns), (down, across) = spec.kernel, spec.dilation
        with (
            T.serial(T.int64(self.blocks)) as c,
            T.serial(T.int64(kernel_rows)) as i,
            T.serial(T.int64(kernel_columns)) as j,
        ):
            tap = [
                T.Bind(pixels(c, i * down, j * across + register * QUARTERS))
                for register in registers
            ]
            for channel, of_channel in enumerate(sums):
                w = self.buffers["w"][T.int64(channel), c, i, j, ramp(LANES)]
                weights = T.Bind(shuffle(w, list(range(LANES)) * QUARTERS))
                for acc, x in zip(of_channel, tap, strict=True):
                    product = VNNI_LANES.step(acc[ramp(LANES)], x, weights)
                    T.buffer_store(acc, product, [ramp(LANES)])
        for channel, of_channel in enumerate(sums):
            self._write(n, channel, (row, column), of_channel)

    def _write(self, n: Expr, channel: int, place: tuple[Expr, Expr], sums: list[Any]) -> None:
        """Emit 16 pixels of one channel: quarters added, epilogue, store."""
        spec, geometry = self.spec, self.geometry

        def _load(name: str, index: int | None = None) -> Expr:
            value = self.buffers[name][channel if index is None else index]
            return broadcast(value, LANES) if index is None else value

        values = [T.Bind(acc[ramp(LANES)]) for acc in sums]
        total = _load("bias")
        for quarter in range(QUARTERS):
            total = total + tirx.Shuffle(values, [quarter + QUARTERS * i for i in range(LANES)])
        row = (n * spec.out_channels + channel) * geometry.height + place[0]
        here = ramp(LANES, row * geometry.width + place[1])
        r = None if self.r is None else self.r[here]
        T.buffer_store(self.y, epilogue(spec, T.Bind(total), _load, r), [here])


def _accumulator() -> Any:
    acc = T.sblock_alloc_buffer(int64((LANES,)), "int32", layout=None)
    T.buffer_store(acc, broadcast(tirx.const(0, "int32"), LANES), [ramp(LANES)])
    return IRBuilder.name("acc", acc)


def _pack(spec: Conv2d, params: Arrays) -> Arrays:
    """Return the constants as the kernel reads them: weights by output channel and block."""
    w = params["w"]
    w = np.pad(w, ((0, 0), (0, -w.shape[1] % LANES), (0, 0), (0, 0)))
    w = w.reshape(len(w), -1, LANES, *spec.kernel).transpose(0, 1, 3, 4, 2)
    return {**fold_zero_point(spec, params), "w": np.ascontiguousarray(w)}


def _layouts(spec: Conv2d, _wanted: Layouts) -> Layouts:
    others = (ROW,) * (len(spec.tensors) - 1)
    return Layouts(inputs=(NCHW16C, *others), output=ROW)


def _schedule(sch: Schedule, spec: Conv2d, _target: Target) -> None:
    """Share the tasks of a large image among threads."""
    steps = replace(spec, batch=1).multiplications // (QUARTERS * LANES)
    if not isinstance(spec.batch, int) or steps * spec.batch >= SERIAL_STEPS:
        sch.parallel(sch.get_loops(sch.get_sblock(TASK))[0])


CONV2D_NARROW_VNNI = ScheduleTemplate(
    name=NAME,
    kind="conv2d",
    refuses=refuses,
    layouts=_layouts,
    kernel=kernel,
    default=_schedule,
    space=_schedule,
    pack=_pack,
)
