"""Bilinear resize of floats on a CPU: along the columns once a row of x, then along the rows.

    x, y : float32, row major
    rows int32 (2 * oh,), row_weights float32 (oh,), columns int32 (2 * ow,), column_weights (ow,)

Loops (p parallel):

    p:plane * rows    some rows of y
      row of x  column        what they lie between, at the columns of y
      row of y  16 columns    vectors

Exact:  bit-identical to the specification.
"""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.bodies.body import template_name
from schedules.bodies.buffers import allocate, declare_operator, flat, ramp, whole
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.row_major import row_major_template
from schedules.bodies.vectors import broadcast, fma
from schedules.cpu.elementwise import SERIAL_ELEMENTS, refuses_kind
from schedules.cpu.norms.rows import each_piece
from schedules.spec import Bilinear

ROWS = 16  # of y, of a task


def kernel(spec: Bilinear) -> tirx.PrimFunc:
    """Return the kernel: one block, some rows of y each."""
    (height, width), planes = spec.out_size, spec.batch * spec.channels
    rows = -(-height // -(-height // ROWS))
    chunks = -(-height // rows)
    count = planes * chunks
    is_large = not isinstance(count, int) or count * rows * width >= SERIAL_ELEMENTS
    with prim_func() as builder:
        buffers = declare_operator(spec, spec.lengths())
        tasks = (T.parallel if is_large else T.serial)(*int64([count]))
        with T.sblock("root"), tasks as loop, T.sblock("rows"):
            (task,) = axes("task", int64([count]), [loop])
            T.reads(*(whole(buffer) for name, buffer in buffers.items() if name != "y"))
            T.writes(whole(buffers["y"]))
            T.sblock_attr({"template": template_name(spec.kind)})
            top = tirx.min(task % chunks * rows, T.int64(height - rows))
            _emit(spec, buffers, task // chunks, top, rows)
    return builder.get()


def _emit(spec: Bilinear, buffers: dict[str, Any], plane: Expr, top: Expr, rows: int) -> None:
    """Emit ``rows`` rows of y from ``top`` on."""
    (height, width), x, y = spec.out_size, flat(buffers["x"]), flat(buffers["y"])
    taps, weights = buffers["columns"], buffers["column_weights"]
    reach = _reach(spec, rows)
    between = allocate("between", (reach * width,), "float32")
    base = T.Bind(buffers["rows"][top].astype("int64"))
    with T.serial(T.int64(reach)) as i:
        row = tirx.min(base + i, T.int64(spec.height - 1))
        start = T.Bind((plane * spec.height + row) * spec.width)
        with T.serial(T.int64(width)) as j:
            first, second = (
                T.Bind(x[start + taps[j + part * width].astype("int64")]) for part in range(2)
            )
            T.buffer_store(between, fma(second - first, weights[j], first), [i * width + j])
    with T.serial(T.int64(rows)) as i:
        ends = [
            T.Bind((buffers["rows"][top + i + part * height].astype("int64") - base) * width)
            for part in range(2)
        ]
        weight = T.Bind(buffers["row_weights"][top + i])

        def _blend(at: Expr, _lane: int, count: int, _seen: int) -> None:
            first, second = (between[ramp(count, end + at)] for end in ends)
            value = fma(second - first, broadcast(weight, count), first)
            here = ((plane * height + top + i) * width) + at
            T.buffer_store(y, value, [ramp(count, here)])

        each_piece(width, _blend)


def _reach(spec: Bilinear, rows: int) -> int:
    """Return how many rows of x so many neighbouring rows of y lie between, at most."""
    height = spec.out_size[0]
    ratio = max(spec.height / height, (spec.height - 1) / max(height - 1, 1))
    return min(spec.height, math.ceil((rows - 1) * ratio) + 3)


BILINEAR_CPU = row_major_template("bilinear", template_name("bilinear"), refuses_kind, kernel)
