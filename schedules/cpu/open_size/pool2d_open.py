"""Float32 pooling that is compiled once for images and channels of any number.

    x, y : (1, c/16, h, w, 16) or (1, c, h, w)
    m    : (oh, ow), of averages

Loops after scheduling (p parallel, v vectorized):

    p:block   oh ow   zero v:lane   kh kw v:lane   store v:lane

Exact:  the bits of the pooling that knows its sizes, but for the sign of a zero among maxima.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.buffers import allocate, declare_arguments, flat, whole
from schedules.bodies.extremes import least
from schedules.bodies.pool2d import leaves_image, meets_image
from schedules.bodies.prim_func import axes, prim_func
from schedules.cpu.elementwise import refuses_cpu
from schedules.cpu.outermost import share_outermost
from schedules.layout import NCHW16C, ROW
from schedules.spec import OpenPool2d, Pool2d
from schedules.template import Layouts, ScheduleTemplate

NAME = "pool2d_open_f32"


def opened(spec: Pool2d, layouts: Layouts) -> OpenPool2d | None:
    """Return the kernel for all sizes that computes ``spec``, or None where there is none."""
    layout = layouts.output
    is_one = isinstance(spec.batch, int) and spec.batch == 1
    if spec.x != "float32" or not is_one or layout not in (ROW, NCHW16C):
        return None
    if spec.reduce == "max" and not meets_image(spec):  # what padding alone gives is another
        return None
    x_shape = tuple(tirx.Var(name, "int64") for name in ("blocks", "height", "width"))
    y_shape = (x_shape[0], *(tirx.Var(name, "int64") for name in ("rows", "columns")))
    is_padded = leaves_image(spec)
    is_global = spec.kernel == (spec.height, spec.width) and spec.out_size == (1, 1)
    return OpenPool2d(
        reduce=spec.reduce,
        x_shape=x_shape,
        y_shape=y_shape,
        kernel=None if is_global and not is_padded else spec.kernel,
        strides=(1, 1) if is_global and not is_padded else spec.strides,
        dilation=spec.dilation,
        padding=spec.padding,
        is_padded=is_padded,
        lanes=layout.block or 1,
    )


def kernel(spec: OpenPool2d, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    sizes: tuple[Any, ...] = spec.y_shape
    shapes: dict[str, Any] = {
        "x": (spec.shape("x"), "float32"),
        **{name: (sizes[1:], "float32") for name in spec.params},
        "y": (spec.shape("y"), "float32"),
    }
    with prim_func() as builder:
        buffers = declare_arguments(shapes)
        with T.sblock("root"), T.serial(T.int64(0), sizes[0]) as loop, T.sblock("windows"):
            (block,) = axes("block", [sizes[0]], [loop])
            T.reads(*(whole(buffer) for name, buffer in buffers.items() if name != "y"))
            T.writes(whole(buffers["y"]))
            T.sblock_attr({"template": NAME})
            _emit(spec, buffers, block)
    return builder.get()


def _emit(spec: OpenPool2d, buffers: dict[str, Any], block: Expr) -> None:
    sizes: tuple[Any, ...] = spec.y_shape
    rows, columns = sizes[1:]
    x, y, lanes = flat(buffers["x"]), flat(buffers["y"]), T.int64(spec.lanes)
    m = flat(buffers["m"]) if spec.params else None
    acc = allocate("acc", (lanes,), "float32")
    first = _outside(spec)
    with T.serial(T.int64(0), rows) as row, T.serial(T.int64(0), columns) as column:
        with T.vectorized(T.int64(0), lanes) as lane:
            T.buffer_store(acc, first, [lane])
        _reduce(spec, x, acc, block, (row, column))
        position = row * columns + column
        with T.vectorized(T.int64(0), lanes) as lane:
            value = acc[lane] if m is None else acc[lane] * m[position]
            index = (block * (rows * columns) + position) * lanes + lane
            T.buffer_store(y, value, [index])


def _reduce(spec: OpenPool2d, x: Any, acc: Any, block: Expr, at: tuple[Expr, Expr]) -> None:
    """Reduce one window into ``acc``, row by row."""
    sizes: tuple[Any, ...] = spec.x_shape
    height, width = sizes[1:]
    taps = (height, width) if spec.kernel is None else [T.int64(size) for size in spec.kernel]
    lanes = T.int64(spec.lanes)
    with T.serial(T.int64(0), taps[0]) as i, T.serial(T.int64(0), taps[1]) as j:
        row, column = (
            out * stride + tap * dilation - pad
            for out, stride, tap, dilation, pad in zip(
                at, spec.strides, (i, j), spec.dilation, spec.padding, strict=True
            )
        )
        with T.vectorized(T.int64(0), lanes) as lane:
            value = x[((block * height + row) * width + column) * lanes + lane]
            if spec.is_padded:
                is_inside = tirx.all(row >= 0, row < height, column >= 0, column < width)
                value = tirx.if_then_else(is_inside, value, _outside(spec))
            reduced = acc[lane] + value if spec.params else tirx.max(acc[lane], value)
            T.buffer_store(acc, reduced, [lane])


def _outside(spec: OpenPool2d) -> Expr:
    """Return what a window's result begins with, and what padding is: it changes nothing."""
    return tirx.const(0, "float32") if spec.params else least("float32")


POOL2D_OPEN_F32 = ScheduleTemplate(
    name=NAME,
    kind="open_pool2d",
    refuses=lambda spec, target: refuses_cpu(target),
    layouts=lambda spec, wanted: Layouts(inputs=(ROW,), output=ROW),
    kernel=kernel,
    default=share_outermost,
    space=share_outermost,
)
