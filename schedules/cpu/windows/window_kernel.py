"""Convolutions whose lanes need only channels of their own block: depthwise, and small groups.

    x, r, y : (n, c/16, h, w, 16)     NCHW16c
    w       : (c/16, vectors, lanes)  what the taps of a window multiply, one vector each, its
                                      channels in the order in which registers hold them
    bias    : (c/16, 16)              the accumulators start with it; m, m_neg, alpha alike

Two blocks: "padded" surrounds x with its zero point; "windows" computes ``phases`` neighbouring
pixels of 16 channels, and carries the template's name. The accumulators of a window are one
expression a pixel and need no buffer: ``schedules.cpu.windows.window_tiles`` unrolls several
windows, and LLVM loads and rearranges each pixel of the tile once and keeps the sums in registers.

Exact:  as far as the instruction is; sums are ordered as the taps are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.bodies.buffers import allocate, ramp
from schedules.bodies.epilogue import epilogue
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.vectors import cast
from schedules.cpu.lanes import Lanes, shuffle
from schedules.cpu.tiles.conv_arguments import LANES, clear_tail, declare, image
from schedules.cpu.tiles.padded_rows import PaddedRow
from schedules.spec import PER_CHANNEL, Conv2d

BLOCK = "windows"
PADDED = "padded"


@dataclass(frozen=True)
class Tap:
    """One multiplication: pixels from (row, col) of the window by a vector of w.

    ``select`` says which rearrangement of the pixels, where the kernel has several.
    """

    row: int
    col: int
    vector: int
    select: int = 0


@dataclass(frozen=True, kw_only=True)
class WindowKernel:
    """How one kernel computes a window.

    Parameters
    ----------
    template
        The template's name.
    lanes
        The instruction flavour.
    taps
        Those of each output pixel of a window, in the order they are summed.
    order
        ``select`` -> which elements of what a tap reads go to lane 0, to lane 1, ...
    pixels
        How many neighbouring pixels a tap reads.
    """

    template: str
    lanes: Lanes
    taps: tuple[tuple[Tap, ...], ...]
    order: Callable[[int], list[int]]
    pixels: int = 1

    @property
    def phases(self) -> int:
        """How many output pixels a window has."""
        return len(self.taps)

    @property
    def vectors(self) -> int:
        """How many vectors of w a block of channels has."""
        return 1 + max(tap.vector for taps in self.taps for tap in taps)

    @property
    def elements(self) -> int:
        """How many elements a vector of w has."""
        return LANES * self.lanes.dot.width

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns of x that a window reads."""
        taps = [tap for taps in self.taps for tap in taps]
        return 1 + max(tap.row for tap in taps), self.pixels + max(tap.col for tap in taps)

    def steps(self, spec: Conv2d) -> int:
        """Return how many multiplications of vectors there are; of one image, if n is symbolic."""
        batch = spec.batch if isinstance(spec.batch, int) else 1
        blocks, (rows, cols) = -(-spec.out_channels // LANES), spec.out_size
        return batch * blocks * rows * (cols // self.phases) * self.vectors

    def padded_width(self, spec: Conv2d) -> int:
        """Return how many pixels of a padded row its windows read."""
        return (spec.out_size[1] - self.phases) * spec.strides[1] + self.reach[1]


def window_prim_func(spec: Conv2d, kernel: WindowKernel) -> tirx.PrimFunc:
    """Return the unscheduled PrimFunc of ``kernel``."""
    # MetaSchedule cannot count the operations of vectors itself.
    flops = 2 * kernel.elements * kernel.steps(spec)
    with prim_func(estimated_flops=flops) as builder:
        shape = (-(-spec.out_channels // LANES), kernel.vectors, kernel.elements)
        buffers = declare(spec, shape, kernel.lanes.weights)
        with T.sblock("root"):
            _Emitter(spec, kernel, buffers).emit()
    return builder.get()


@dataclass(frozen=True)
class _Emitter:
    """Emits the two blocks of a window kernel into the IRBuilder that is open."""

    spec: Conv2d
    kernel: WindowKernel
    buffers: dict[str, Any]

    @property
    def staged(self) -> str:
        """The type of the padded rows."""
        return self.kernel.lanes.staged or self.spec.x

    def emit(self) -> None:
        """Emit the copy of x with its border, then the sums over it."""
        padded = self._pad()
        self._windows(padded)

    def _pad(self) -> Any:
        """Surround the rows of x with its zero point; return their buffer."""
        spec, width = self.spec, self.kernel.padded_width(self.spec)
        height = (spec.out_size[0] - 1) * spec.strides[0] + self.kernel.reach[0]
        shape = [*image(spec, "x")[:2], *int64((height, width, LANES))]
        extents = [*shape[:3], *int64((1, 1))]  # compute_at wants an axis for each of the buffer's
        padded = allocate("rows", shape, self.staged)
        with T.grid(*extents) as loops, T.sblock(PADDED):
            n, c, h, w, lane = axes("n c h w lane", extents, loops)
            h_x = h - spec.padding[0]
            columns = slice(w * width, w * width + width), slice(lane * LANES, lane * LANES + LANES)
            region = padded[(n, c, h, *columns)]
            T.reads(self.buffers["x"][n, c, h_x, 0 : spec.width, 0:LANES], *self._zero_point())
            T.writes(region)
            row = self._view("row", region, (width, LANES))
            left, inner = PaddedRow.reach(width, spec.padding[1], spec.width)

            def _load(pixel: Expr, lanes: int) -> Expr:
                return cast(self.buffers["x"][n, c, h_x, pixel, ramp(lanes)], self.staged)

            def _store(pixel: Expr, lanes: int, value: Expr) -> None:
                T.buffer_store(row, value, [pixel, ramp(lanes)])

            copied = PaddedRow(
                width=width, left=left, inner=inner, dtype=self.staged, load=_load, store=_store
            )
            zero = (self._zero_point() or [tirx.const(0, "float32")])[0].astype(self.staged)
            copied.emit(tirx.all(h_x >= 0, h_x < spec.height), zero)
        return padded

    def _zero_point(self) -> list[Expr]:
        """Return the zero point of x, none of floats."""
        return [self.buffers["z"][0]] if "z" in self.buffers else []

    def _windows(self, padded: Any) -> None:
        spec, kernel = self.spec, self.kernel
        windows = spec.out_size[1] // kernel.phases
        extents = [*image(spec, "y")[:2], *int64((spec.out_size[0], windows))]
        with T.grid(*extents) as loops, T.sblock(BLOCK):
            n, c, h, w = axes("n c h w", extents, loops)
            (rows, cols), h_x = kernel.reach, h * spec.strides[0]
            w_x, w_y = w * (kernel.phases * spec.strides[1]), w * kernel.phases
            region = padded[n, c, h_x : h_x + rows, w_x : w_x + cols, 0:LANES]
            pixels = (n, c, h, slice(w_y, w_y + kernel.phases), slice(0, LANES))
            T.reads(region, *self._reads(c, pixels))
            T.writes(self.buffers["y"][pixels])
            T.sblock_attr({"template": kernel.template})
            window = self._view("window", region, (rows, cols, LANES))
            for phase, taps in enumerate(kernel.taps):
                self._pixel(window, (n, c, h, w_y + phase), taps)

    def _view(self, name: str, region: Any, shape: tuple[int, ...]) -> Any:
        """Return padded rows as a buffer whose pixels are adjacent: vectors may span several."""
        strides = [tirx.Var("stride", "int64"), T.int64(LANES), T.int64(1)][-len(shape) :]
        view = T.match_buffer(
            region, int64(shape), self.staged, strides=strides, offset_factor=1, layout=None
        )
        return IRBuilder.name(name, view)

    def _reads(self, c: Expr, pixels: Any) -> list[Any]:
        """Return what a window reads besides the padded rows."""
        regions = []
        for name, buffer in self.buffers.items():
            if name == "w":
                regions.append(buffer[c, 0 : self.kernel.vectors, 0 : self.kernel.elements])
            elif name in PER_CHANNEL:
                regions.append(buffer[c, 0:LANES])
            elif name == "r":
                regions.append(buffer[pixels])
            elif name not in ("x", "y"):
                regions.append(buffer[0 : buffer.shape[0]])
        return regions

    def _pixel(self, window: Any, position: tuple[Expr, ...], taps: tuple[Tap, ...]) -> None:
        """Emit one output pixel: its sum, its epilogue, its store."""
        c, lanes = position[1], self.kernel.lanes

        def _load(name: str, index: int | None = None) -> Expr:
            buffer = self.buffers[name]
            return buffer[index] if index is not None else lanes.held(buffer[c, ramp(LANES)])

        acc = self._held(self._sum(window, c, taps, _load("bias")))
        r = lanes.held(self.buffers["r"][(*position, ramp(LANES))]) if self.spec.residual else None
        y = lanes.in_order(epilogue(self.spec, acc, _load, r))
        T.buffer_store(self.buffers["y"], clear_tail(self.spec, c, y), [*position, ramp(LANES)])

    def _held(self, total: Expr) -> Expr:
        """Return a sum that the epilogue reads several times.

        What is bound to a name TVM writes out again for each use in a function: there it is in a
        buffer. Without one it is not, as tuning records are of these loops.
        """
        if not self.spec.activation:
            acc = T.Bind(total)
            IRBuilder.name("acc", acc)
            return acc
        held = allocate("acc", (1,), str(total.ty.dtype))
        T.buffer_store(held, total, [T.int64(0)])
        return held[T.int64(0)]

    def _sum(self, window: Any, c: Expr, taps: tuple[Tap, ...], bias: Expr) -> Expr:
        """Return the accumulators of one output pixel, which are ``parts`` registers on the way."""
        kernel, lanes = self.kernel, self.kernel.lanes
        count, width = LANES // lanes.parts, lanes.dot.width
        firsts = range(0, LANES, count)
        sums = [shuffle(bias, range(first, first + count)) for first in firsts]
        for tap in taps:
            x = window[tap.row, tap.col, ramp(kernel.pixels * LANES)]
            w = self.buffers["w"][c, tap.vector, ramp(kernel.elements)]
            order = kernel.order(tap.select)
            for part, first in enumerate(firsts):
                held = lanes.order[first : first + count]
                x_part = shuffle(
                    x, [order[lane * width + i] for lane in held for i in range(width)]
                )
                w_part = shuffle(w, range(first * width, (first + count) * width))
                sums[part] = lanes.step(sums[part], x_part, w_part)
        return sums[0] if lanes.parts == 1 else tirx.Shuffle(sums, list(range(LANES)))
