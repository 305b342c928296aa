"""Convolution of 3 x 3 pixels with a quarter of the multiplications, in exact integers.

    x, r, y : (n, c/16, h, w, 16)                                      NCHW16c
    w       : (oc/16/blocks, 36, c/2, blocks, 16 lanes * 2)   int16    a vector per step
    bias    : (oc/16, 16), the zero point of x folded in; m, m_neg, alpha alike

A tile of 4 x 4 outputs follows from 6 x 6 pixels, by 36 products of each channel: the matrices are
those of ``schedules.bodies.toom_cook``. Products are of int16, and so take twice as long as those
of bytes. Pixels outside the image are the zero point. Loops (p parallel):

    p:n*strip              neighbouring tiles
      tile  c/32           6 x 6 pixels at the 36 points, int16
      oc/16/blocks
        point  run         products: a register tile of ``rows`` tiles by ``blocks``
        tile  block        4 x 4 outputs, epilogue

Exact:  integers always, as ``schedules.cpu.winograd.winograd_rule.is_exact`` makes sure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import constants, fold_zero_point, int64
from schedules.bodies.buffers import allocate, declare_arguments, ramp, whole
from schedules.bodies.epilogue import epilogue
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.toom_cook import (
    INPUT,
    OUTPUT,
    OUTPUTS,
    POINTS,
    transformed,
    unscaled,
    weights_at_points,
)
from schedules.bodies.vectors import broadcast, cast
from schedules.cpu.dot import LANES, Dot
from schedules.cpu.products.matrix_tiles import Tile, accumulate
from schedules.cpu.tiles.conv_arguments import clear_tail, image, pack_with
from schedules.cpu.tiles.prefetch import asked
from schedules.cpu.winograd.winograd_rule import Strips, Tiling
from schedules.cpu.written_out import SPEC
from schedules.spec import Conv2d
from schedules.spec.text import to_json
from schedules.template import Arrays

STRIP = "strip"


def kernel(dot: Dot, name: str, spec: Conv2d, strips: Strips) -> tirx.PrimFunc:
    """Return the PrimFunc of template ``name`` for ``strips``."""
    tiling = Tiling.of(spec)
    channels = (tiling.out_blocks, LANES)
    shapes: dict[str, Any] = {
        **{tensor: (image(spec, tensor), spec.dtype(tensor)) for tensor in (*spec.tensors, "y")},
        **constants(spec, channels),
        "w": (_weights_shape(tiling), "int16"),
    }
    with prim_func(estimated_flops=2 * replace(spec, batch=1).multiplications) as builder:
        buffers = declare_arguments({n: shapes[n] for n in (*spec.tensors, *spec.params, "y")})
        with T.sblock("root"):
            _Emitter(dot, name, spec, strips, buffers).emit()
    return builder.get()


def pack(spec: Conv2d, params: Arrays) -> Arrays:
    """Return the constants as the kernel reads them, weights at the points."""
    tiling = Tiling.of(spec)
    w = weights_at_points(params["w"])
    out, channels = tiling.out_blocks * LANES, tiling.channels
    w = np.pad(w, ((0, out - len(w)), (0, channels - w.shape[1]), (0, 0), (0, 0)))
    w = w.reshape(-1, tiling.blocks, LANES, tiling.pairs, 2, POINTS**2)
    w = w.transpose(0, 5, 3, 1, 2, 4).reshape(_weights_shape(tiling))
    return pack_with(np.ascontiguousarray(w), fold_zero_point(spec, params))


def _weights_shape(tiling: Tiling) -> tuple[int, ...]:
    groups = tiling.out_blocks // tiling.blocks
    return (groups, POINTS**2, tiling.pairs, tiling.blocks, 2 * LANES)


class _Emitter:
    """Emits the loops of a kernel into the IRBuilder that is open."""

    def __init__(
        self, dot: Dot, name: str, spec: Conv2d, strips: Strips, buffers: dict[str, Any]
    ) -> None:
        self.dot, self.name, self.spec, self.strips, self.buffers = dot, name, spec, strips, buffers
        self.tiling = Tiling.of(spec)
        # Two blocks of channels fill a register with int16.
        self.lanes = LANES * (2 if self.tiling.channels % (2 * LANES) == 0 else 1)

    def emit(self) -> None:
        """Emit a task for each strip of each image."""
        size, tiling = self.strips.size, self.tiling
        strips = tiling.strips(size)
        count = strips * self.spec.batch
        with T.parallel(*int64([count])) as loop, T.sblock(STRIP):
            (strip,) = axes("strip", int64([count]), [loop])
            T.reads(*(whole(buffer) for name, buffer in self.buffers.items() if name != "y"))
            T.writes(whole(self.buffers["y"]))
            T.sblock_attr({"template": self.name, SPEC: to_json(self.spec)})
            first = tirx.min(strip % strips * size, T.int64(tiling.count - size))
            self._strip(strip // strips, first)

    def _strip(self, n: Expr, first: Expr) -> None:
        size, tiling = self.strips.size, self.tiling
        pixels = allocate("pixels", (POINTS**2, size, tiling.channels), "int16")
        with T.serial(T.int64(size)) as t, T.serial(T.int64(tiling.channels // self.lanes)) as c:
            self._read(n, first + t, t, c, pixels)
        with T.serial(self.buffers["w"].shape[0]) as group:
            sums = allocate("sums", (POINTS**2, size, tiling.blocks, LANES), "int32")
            self._multiply(group, pixels, sums)
            with T.serial(T.int64(size)) as t, T.serial(T.int64(tiling.blocks)) as block:
                self._write(n, first + t, group * tiling.blocks + block, sums, (t, block))

    def _corner(self, tile: Expr) -> tuple[Expr, Expr]:
        """Return the row and the column of a tile's first output."""
        places = tile // self.tiling.across, tile % self.tiling.across
        row, column = map(_first, places, self.spec.dilation)
        return row, column

    def _read(self, n: Expr, tile: Expr, t: Expr, c: Expr, pixels: Any) -> None:
        """Emit the pixels of a tile at the points, for a register of channels."""
        spec, (y_row, y_column) = self.spec, self._corner(tile)
        top, left = y_row - spec.padding[0], y_column - spec.padding[1]
        blocks, (down, across) = self.lanes // LANES, spec.dilation

        def _x(row: Expr, column: Expr) -> Expr:
            x = self.buffers["x"]
            parts = [x[n, c * blocks + i, row, column, ramp(LANES)] for i in range(blocks)]
            both = parts[0] if blocks == 1 else tirx.Shuffle(parts, list(range(self.lanes)))
            return cast(both, "int16")

        def _near_border(row: Expr, column: Expr) -> Expr:
            """Return x, or its zero point: bits are kept by masks, so that nothing branches."""
            inside = tirx.all(row >= 0, row < spec.height, column >= 0, column < spec.width)
            near = [
                tirx.max(tirx.min(place, size - 1), 0)
                for place, size in ((row, spec.height), (column, spec.width))
            ]
            zero, nothing = self.buffers["z"][0].astype("int16"), tirx.const(0, "int16")
            kept = broadcast(tirx.Select(inside, tirx.const(-1, "int16"), nothing), self.lanes)
            return _x(*near) & kept | broadcast(tirx.Select(inside, nothing, zero), self.lanes)

        def _emit(load: Callable[[Expr, Expr], Expr]) -> None:
            rows = transformed(INPUT, lambda i, j: load(top + i * down, left + j * across))
            for i, values in enumerate(rows):
                for j, value in enumerate(values):
                    at = [T.int64(i * POINTS + j), t, ramp(self.lanes, c * self.lanes)]
                    T.buffer_store(pixels, value, at)

        bottom, right = (
            first + (1 + (POINTS - 1) * step) for first, step in ((top, down), (left, across))
        )
        with T.If(tirx.all(top >= 0, left >= 0, bottom <= spec.height, right <= spec.width)):
            with T.Then():
                _emit(_x)
            with T.Else():
                _emit(_near_border)

    def _multiply(self, group: Expr, pixels: Any, sums: Any) -> None:
        """Emit the products of a strip with the weights of a group of blocks."""
        (size, rows), blocks = (self.strips.size, self.strips.rows), self.tiling.blocks
        w, runs = self.buffers["w"], -(-size // rows)
        tile = Tile(rows=rows, blocks=blocks)
        with T.serial(T.int64(POINTS**2)) as point, T.serial(T.int64(runs)) as run:
            first = tirx.min(run * rows, T.int64(size - rows))

            def _ask(step: Expr) -> None:
                """Ask for a line of the next point's weights: runs share them evenly."""
                line = (run * self.tiling.pairs + step) * blocks // runs
                zero = T.int64(0)
                T.evaluate(asked(w, [group, point + 1, zero, zero, line * (2 * LANES)]))

            results = accumulate(
                self.dot,
                tile,
                self.tiling.pairs,
                lambda r, step: pixels[point, first + r, ramp(2, step * 2)],
                lambda block, step: w[group, point, step, block, ramp(2 * LANES)],
                _ask,
            )
            for r, of_row in enumerate(results):
                for block, value in enumerate(of_row):
                    T.buffer_store(sums, value, [point, first + r, T.int64(block), ramp(LANES)])

    def _write(
        self, n: Expr, tile: Expr, channels: Expr, sums: Any, source: tuple[Expr, Expr]
    ) -> None:
        """Emit the outputs of a tile, for a block of channels."""
        spec, (top, left) = self.spec, self._corner(tile)
        (height, width), (down, across) = spec.out_size, spec.dilation

        def _load(name: str, index: int | None = None) -> Expr:
            buffer = self.buffers[name]
            return buffer[channels, ramp(LANES)] if index is None else buffer[index]

        def _sum(i: int, j: int) -> Expr:
            return sums[T.int64(i * POINTS + j), *source, ramp(LANES)]

        for i, values in enumerate(transformed(OUTPUT, _sum)):
            for j, value in enumerate(values):
                row, column = top + i * down, left + j * across
                at = [n, channels, row, column, ramp(LANES)]
                exists = []
                if _reaches_past(i, self.tiling.down, down, height):
                    exists.append(row < height)
                if _reaches_past(j, self.tiling.across, across, width):
                    exists.append(column < width)

                def _store(value: Expr = value, at: list[Any] = at) -> None:
                    acc = T.Bind(unscaled(value) + _load("bias"))
                    r = self.buffers["r"][tuple(at)] if spec.residual else None
                    y = clear_tail(spec, channels, epilogue(spec, acc, _load, r))
                    T.buffer_store(self.buffers["y"], y, at)

                _guarded(exists, _store)


def _first(tile: Any, step: int) -> Any:
    """Return the first row of a row of tiles, whose outputs are ``step`` apart; columns alike."""
    return tile % step + tile // step * (OUTPUTS * step)


def _reaches_past(output: int, tiles: int, step: int, size: int) -> bool:
    """Whether the row ``output`` of some tile lies behind an image of ``size``; columns alike."""
    last: int = max(_first(tile, step) for tile in range(tiles))
    return last + output * step >= size


def _guarded(conditions: list[Expr], emit: Callable[[], None]) -> None:
    if not conditions:
        return emit()
    with T.If(tirx.all(*conditions)), T.Then():
        emit()
    return None
