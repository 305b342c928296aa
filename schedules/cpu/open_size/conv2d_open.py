"""Float32 convolution over NCHW16c that is compiled once for images and channels of any number.

    x, r, y : (1, c/16, h, w, 16)                       NCHW16c
    w       : (oc/16, ic/16, kh, kw, steps, 16)         as conv2d_f32 has it
    bias    : (row classes, column classes, oc/16, 16)
    w, bias : (c/16, kh * kw, 16), (c/16, 16)           as depthwise_f32 has them

Loops after scheduling (p parallel, u unrolled), for tiles of some positions of y, row by row:

    p:block p:row   copy of x with its border, where there is one
    row column      where the window of each position begins
    p:task  tile   k0  kh  kw  c  u:block  u:position   or  k0  kh  c  u:kw  u:block  u:position
    p:task  tile   kh  kw  u:position                   depthwise

A task is an eighth of the tiles for a block of output channels, or two; the last tile computes the
last position several times. A network that calibrates runs a few hundred times and has dozens of
convolutions: compiling one kernel for each takes longer than they run.

Exact:  the bits of conv2d_f32 and depthwise_f32: a product with padding adds zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.border import axes_of
from schedules.bodies.buffers import allocate, declare_arguments, flat, ramp, whole
from schedules.bodies.epilogue import epilogue
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.vectors import splat
from schedules.cpu.dot import F32, LANES, accumulators
from schedules.cpu.elementwise import refuses_cpu
from schedules.cpu.lanes import F32_LANES
from schedules.cpu.windows.depthwise import refuses as depthwise_refuses
from schedules.layout import ROW
from schedules.spec import LAST, Conv2d, OpenConv2d
from schedules.template import Layouts, ScheduleTemplate

NAME = "conv2d_open_f32"
PADDED, PLACES, WINDOWS = "padded", "places", "windows"
MOST_POSITIONS = 12  # of a tile: their addresses and those of weights and x fill 16 registers
MOST_ACCUMULATORS = 15  # 1024 bytes of them TVM would not put on the stack
MOST_BLOCKS = 2  # of a tile: each value of x that is read is multiplied twice
TASKS = 8  # of each block of output channels
UNROLLED_STEPS = 4


def opened(spec: Conv2d, target: Target) -> OpenConv2d | None:
    """Return the kernel for all sizes that computes ``spec``, or None where there is none.

    Its constants are those of depthwise_f32 where that computes ``spec``, else of conv2d_f32.
    """
    rows, cols = axes_of(spec)
    depthwise = depthwise_refuses(F32_LANES, spec, target) is None  # one channel alone, too
    if spec.groups > 1 and not depthwise:
        return None
    is_one = isinstance(spec.batch, int) and spec.batch == 1
    if not is_one or spec.half:
        return None
    x_shape = tuple(tirx.Var(name, "int64") for name in ("x_blocks", "height", "width"))
    y_shape = tuple(tirx.Var(name, "int64") for name in ("y_blocks", "rows", "columns"))
    return OpenConv2d(
        x_shape=x_shape,
        y_shape=y_shape,
        kernel=spec.kernel,
        strides=spec.strides,
        dilation=spec.dilation,
        padding=spec.padding[:2],
        is_padded=any(rows.crosses) or any(cols.crosses),
        columns_last=any(cols.crosses) and not depthwise,
        steps=1 if depthwise else min(spec.in_channels, LANES),
        tile=_tile(spec, min(accumulators(target), MOST_ACCUMULATORS)),
        residual=spec.residual is not None,
        sum_first=spec.sum_first,
        leaky=spec.leaky,
        depthwise=depthwise,
    )


def _tile(spec: Conv2d, most: int) -> tuple[int, int]:
    """Return blocks and positions of a tile of at most so many accumulators."""
    is_even = -(-spec.out_channels // LANES) % MOST_BLOCKS == 0
    blocks = MOST_BLOCKS if spec.groups == 1 and is_even else 1
    return blocks, min(max(most // blocks, 1), MOST_POSITIONS)


def kernel(spec: OpenConv2d, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    with prim_func() as builder:
        buffers = declare_arguments(_arguments(spec))
        with T.sblock("root"):
            _Emitter(spec, buffers).emit()
    return builder.get()


def _arguments(spec: OpenConv2d) -> dict[str, tuple[Any, str]]:
    x_blocks, y_blocks = spec.x_shape[0], spec.y_shape[0]
    classes = [tirx.Var(name, "int64") for name in ("row_classes", "column_classes")]
    shapes = {
        **{name: spec.shape(name) for name in spec.tensors},
        "w": (
            (y_blocks, spec.kernel[0] * spec.kernel[1], LANES)
            if spec.depthwise
            else (y_blocks, x_blocks, *spec.kernel, spec.steps, LANES)
        ),
        "bias": (*([] if spec.depthwise else classes), y_blocks, LANES),
        "alpha": (y_blocks, LANES),
        "clamp": (2,),
        LAST: (1,),
        "y": spec.shape("y"),
    }
    types = {LAST: "int32"}
    names = (*spec.tensors, *spec.params, "y")
    return {name: (shapes[name], types.get(name, "float32")) for name in names}


class _Emitter:
    """Emits the blocks of one kernel into the IRBuilder that is open."""

    def __init__(self, spec: OpenConv2d, buffers: dict[str, Any]) -> None:
        self._spec = spec
        self._buffers = buffers
        sizes: tuple[Any, ...] = spec.y_shape
        self._blocks, self._rows, self._columns = sizes
        self._positions = self._rows * self._columns

    def emit(self) -> None:
        """Emit the copy with a border, if there is one, then the sums."""
        source = self._pad() if self._spec.is_padded else self._buffers["x"]
        self._sum(source, self._places())

    @property
    def _read(self) -> tuple[Expr, Expr]:
        """Rows and columns of the image, border included, that windows read."""
        spec = self._spec
        if not spec.is_padded:
            return spec.x_shape[1], spec.x_shape[2]
        rows, columns = (
            (out - 1) * stride + (taps - 1) * step + 1
            for out, stride, taps, step in zip(
                spec.y_shape[1:], spec.strides, spec.kernel, spec.dilation, strict=True
            )
        )
        return rows, columns

    def _pad(self) -> Any:
        """Copy x with zeros around it; return the copy."""
        (blocks, height, width), (top, left) = self._spec.x_shape, self._spec.padding
        rows, columns = self._read
        x = self._buffers["x"]
        padded = allocate("image", (blocks, rows, columns, LANES), "float32")
        with T.grid(blocks, rows) as loops, T.sblock(PADDED):
            c, h = axes("c h", (blocks, rows), loops)
            T.reads(whole(x))
            T.writes(padded[c, h, 0:columns, 0:LANES])
            row = h - top
            zero = splat(0, "float32", LANES)
            is_inside = tirx.all(row >= 0, row < height)
            with T.serial(T.int64(0), columns) as w:
                column = w - left
                exists = tirx.all(is_inside, column >= 0, column < width)
                with T.If(exists):
                    with T.Then():
                        pixel = x[T.int64(0), c, row, column, ramp(LANES)]
                        T.buffer_store(padded, pixel, [c, h, w, ramp(LANES)])
                    with T.Else():
                        T.buffer_store(padded, zero, [c, h, w, ramp(LANES)])
        return padded

    def _places(self) -> Any:
        """Note where the window of each position begins: divisions in each tile would take long."""
        columns, (down, across) = self._read[1], self._spec.strides
        places = allocate("places", (self._rows, self._columns), "int64")
        with T.grid(self._rows, self._columns) as loops, T.sblock(PLACES):
            h, w = axes("h w", (self._rows, self._columns), loops)
            T.reads()
            T.writes(places[h, w])
            T.buffer_store(places, (h * down * columns + w * across) * LANES, [h, w])
        return places

    def _sum(self, source: Any, places: Any) -> None:
        """Compute y, a task of tiles at a time."""
        spec, buffers = self._spec, self._buffers
        blocks, width = spec.tile
        tasks: Any = self._blocks // blocks * TASKS
        with T.serial(T.int64(0), tasks) as loop, T.sblock(WINDOWS):
            (task,) = axes("task", [tasks], [loop])
            read = [buffer for name, buffer in buffers.items() if name not in ("x", "y")]
            T.reads(whole(source), whole(places), *map(whole, read))
            T.writes(whole(buffers["y"]))
            T.sblock_attr({"template": NAME})
            x, y, begins = flat(source), flat(buffers["y"]), flat(places)
            r = flat(buffers["r"]) if spec.residual else None
            offsets = allocate("offsets", (width,), "int64")
            acc = allocate("acc", (blocks * width,), f"float32x{LANES}")
            block, part = task // TASKS * blocks, task % TASKS
            tiles = (self._positions + (width - 1)) // width
            first = part * tiles // TASKS
            with T.serial(T.int64(0), (part + 1) * tiles // TASKS - first) as index:
                begin = (first + index) * width
                with _unrolled(width) as number:
                    place = begins[self._position(begin, number)]
                    T.buffer_store(offsets, place, [number])
                self._begin(block, acc)
                (self._accumulate_lanes if spec.depthwise else self._accumulate)(
                    block, x, offsets, acc
                )
                self._store(block, begin, acc, y, r)

    def _position(self, begin: Expr, number: Expr) -> Expr:
        return tirx.min(begin + number, self._positions - 1)

    def _begin(self, block: Expr, acc: Any) -> None:
        """Start the sums with the bias."""
        blocks, width = self._spec.tile
        classes = [] if self._spec.depthwise else [T.int64(0), T.int64(0)]
        with _unrolled(blocks) as b, _unrolled(width) as number:
            bias = self._buffers["bias"][(*classes, block + b, ramp(LANES))]
            T.buffer_store(acc, bias, [b * width + number])

    def _accumulate(self, block: Expr, x: Any, offsets: Any, acc: Any) -> None:
        spec, (rows, columns) = self._spec, self._read
        w, (blocks, tile_width) = self._buffers["w"], spec.tile

        def _step(k0: Expr, kh: Expr, kw: Expr, c: Expr) -> None:
            down, across = kh * spec.dilation[0], kw * spec.dilation[1]
            start = ((k0 * rows + down) * columns + across) * LANES + c
            with _unrolled(tile_width) as number, _unrolled(blocks) as b:
                weights = w[block + b, k0, kh, kw, c, ramp(LANES)]
                index = b * tile_width + number
                step = F32.step(acc[index], x[offsets[number] + start], weights)
                T.buffer_store(acc, step, [index])

        height, width = (T.int64(size) for size in spec.kernel)
        with T.grid(spec.x_shape[0], height) as (k0, kh):
            if spec.columns_last:
                with _steps(spec.steps, 1) as c, _unrolled(spec.kernel[1]) as kw:
                    _step(k0, kh, kw, c)
            else:
                with T.serial(T.int64(0), width) as kw, _steps(spec.steps) as c:
                    _step(k0, kh, kw, c)

    def _accumulate_lanes(self, block: Expr, x: Any, offsets: Any, acc: Any) -> None:
        """Sum the taps of a depthwise window, all channels of a block at once."""
        spec, (rows, columns) = self._spec, self._read
        height, width = (T.int64(size) for size in spec.kernel)
        with T.serial(T.int64(0), height) as kh, T.serial(T.int64(0), width) as kw:
            down, across = kh * spec.dilation[0], kw * spec.dilation[1]
            start = ((block * rows + down) * columns + across) * LANES
            weights = self._buffers["w"][block, kh * spec.kernel[1] + kw, ramp(LANES)]
            with _unrolled(spec.tile[1]) as number:
                lanes = x[ramp(LANES, offsets[number] + start)]
                T.buffer_store(acc, F32_LANES.step(acc[number], lanes, weights), [number])

    def _store(self, block: Expr, begin: Expr, acc: Any, y: Any, r: Any) -> None:
        spec, (blocks, width) = self._spec, self._spec.tile
        with _unrolled(blocks) as b, _unrolled(width) as number:
            pixel = (block + b) * self._positions + self._position(begin, number)
            lanes, load = ramp(LANES, pixel * LANES), _loader(self._buffers, block + b)
            addend = None if r is None else r[lanes]
            value = epilogue(spec, acc[b * width + number], load, addend)
            T.buffer_store(y, self._cleared(block + b, value), [lanes])

    def _cleared(self, block: Expr, value: Expr) -> Expr:
        """Put zero into lanes past the last channel."""
        last = self._buffers[LAST][0]
        count = tirx.Select(block < self._blocks - 1, tirx.const(LANES, "int32"), last)
        valid = tirx.Ramp(T.int32(0), T.int32(1), LANES) < tirx.Broadcast(count, LANES)
        return tirx.Select(valid, value, splat(0, "float32", LANES))


def _loader(buffers: dict[str, Any], block: Expr) -> Callable[..., Expr]:
    def _load(name: str, element: int | None = None, /) -> Expr:
        buffer = buffers[name]
        loaded: Expr = buffer[block, ramp(LANES)] if element is None else buffer[element]
        return loaded

    return _load


def _unrolled(count: int) -> Any:
    return T.unroll(T.int64(0), T.int64(count))


@contextmanager
def _steps(count: int, unrolled: int = UNROLLED_STEPS) -> Iterator[Expr]:
    """Open the loop over channels of a block, unrolled in part."""
    if unrolled == 1 or count % unrolled:
        with T.serial(T.int64(0), T.int64(count)) as c:
            yield c
        return
    vectors = T.serial(T.int64(0), T.int64(count // unrolled))
    with vectors as outer, _unrolled(unrolled) as inner:
        yield outer * unrolled + inner


def default(sch: Schedule, spec: OpenConv2d, target: Target) -> None:
    """Give rows and tasks to threads."""
    for name in (*((PADDED,) if spec.is_padded else ()), WINDOWS):
        loops = sch.get_loops(sch.get_sblock(name))
        sch.parallel(sch.fuse(*loops) if len(loops) > 1 else loops[0])


CONV2D_OPEN_F32 = ScheduleTemplate(
    name=NAME,
    kind="open_conv2d",
    refuses=lambda spec, target: refuses_cpu(target),
    layouts=lambda spec, wanted: Layouts(inputs=(ROW,) * len(spec.tensors), output=ROW),
    kernel=kernel,
    default=default,
    space=default,
)
