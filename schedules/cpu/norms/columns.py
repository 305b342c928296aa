"""Softmax of rows that lie side by side on a CPU: sixteen rows at once, a lane each.

    x     : float32, row major
    y     : float32, int8 or uint8, row major
    s float32 (1,), z int32 (1,), clamp float32 (2,)                      integer y

Loops after scheduling (p parallel):

    p:image * columns       up to 64 rows, neighbours in memory
      16 rows               the largest; exponentials and sums; shares

The sixteen partial sums of each row are vectors of rows in memory. Exponentials are kept in y where
that is float32, else in memory of their own.

Exact:  bit-identical to the specification: sums are of the same numbers in the same order.
"""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies import rows
from schedules.bodies.arguments import int64
from schedules.bodies.body import template_blocks
from schedules.bodies.buffers import flat, ramp, whole
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.row_major import row_major_template
from schedules.bodies.vectors import splat
from schedules.cpu.elementwise import SERIAL_ELEMENTS, extents, refuses_cpu
from schedules.cpu.norms.rows import each_piece
from schedules.spec import Softmax
from schedules.spec.normalizing import PARTIAL_SUMS
from schedules.spec.operator_spec import FLOAT32_MAX

NAME = "softmax_columns_cpu"
COLUMNS = 64  # of a task: so much of each row's element is in four lines of a cache


def refuses(spec: Softmax, target: Target) -> str | None:
    """Say why the template cannot be used, or None."""
    if spec.span == 1:
        return "its rows lie one behind the other"
    return refuses_cpu(target) or rows.refuses(spec)


def kernel(spec: Softmax) -> tirx.PrimFunc:
    """Return the unscheduled kernel: one block, some neighbouring rows each."""
    width = min(spec.span, COLUMNS)
    tasks = -(-spec.span // width)
    with prim_func() as builder:
        buffers = rows.declare(spec)
        images = math.prod(buffers["x"].shape) // (spec.size * spec.span)
        with T.sblock("root"), T.serial(images * tasks) as loop, T.sblock("columns"):
            (task,) = axes("columns", [images * tasks], [loop])
            T.reads(*(whole(buffer) for name, buffer in buffers.items() if name != "y"))
            T.writes(whole(buffers["y"]))
            T.sblock_attr({"template": NAME})
            # The last task of an image begins early, so that it is whole.
            column = tirx.min(task % tasks * width, T.int64(spec.span - width))
            first = task // tasks * (spec.size * spec.span) + column
            columns = _Columns(spec, buffers, first)
            each_piece(width, lambda at, _lane, count, _seen: columns.emit(at, count))
    return builder.get()


class _Columns:
    """Emits neighbouring rows, of which the first element of the first one is at ``first``."""

    def __init__(self, spec: Softmax, buffers: dict[str, Any], first: Expr) -> None:
        self.spec, self.buffers, self.first = spec, buffers, first
        self.x, self.y = (flat(buffers[name]) for name in "xy")
        self.top, self.total = _memory(PARTIAL_SUMS), _memory(PARTIAL_SUMS)
        self.sums = _memory(PARTIAL_SUMS * PARTIAL_SUMS)
        self.is_float = spec.y == "float32"
        self.kept = self.y if self.is_float else _memory(spec.size * PARTIAL_SUMS)

    def emit(self, column: Expr, count: int) -> None:
        """Emit ``count`` rows from ``column`` on."""
        top, lanes = self.top, ramp(count)
        T.buffer_store(top, _same(-FLOAT32_MAX, count), [lanes])
        with T.serial(T.int64(0), T.int64(self.spec.size)) as i:
            here = self._place(i, column, count)
            T.buffer_store(top, tirx.max(self.x[here], top[lanes]), [lanes])
        T.buffer_store(top, rows.finite(top[lanes]), [lanes])
        self._add(column, count)
        T.buffer_store(self.total, self._total(count), [lanes])
        self._divide(column, count)

    def _add(self, column: Expr, count: int) -> None:
        """Emit exponentials and their partial sums."""
        with T.serial(T.int64(0), T.int64(PARTIAL_SUMS)) as i:
            T.buffer_store(self.sums, _same(0, count), [ramp(count, i * PARTIAL_SUMS)])
        with T.serial(T.int64(0), T.int64(self.spec.size)) as i:
            here = self._place(i, column, count)
            kept = self._kept(i, here, count)
            e = rows.exponential(self.x[here], self.top[ramp(count)])
            T.buffer_store(self.kept, e, [kept])
            part = ramp(count, i % PARTIAL_SUMS * PARTIAL_SUMS)
            T.buffer_store(self.sums, self.sums[part] + self.kept[kept], [part])

    def _total(self, count: int) -> Expr:
        """Return the sums of rows."""
        starts = (T.int64(part * PARTIAL_SUMS) for part in range(PARTIAL_SUMS))
        return rows.joined([self.sums[ramp(count, start)] for start in starts])

    def _divide(self, column: Expr, count: int) -> None:
        """Emit y."""
        with T.serial(T.int64(0), T.int64(self.spec.size)) as i:
            here = self._place(i, column, count)
            e = self.kept[self._kept(i, here, count)]
            t = rows.stored(self.spec, rows.share(e, self.total[ramp(count)]), self.buffers)
            T.buffer_store(self.y, t, [here])

    def _place(self, element: Expr, column: Expr, count: int) -> Expr:
        """Return where an element of each row is."""
        return ramp(count, self.first + element * self.spec.span + column)

    def _kept(self, element: Expr, place: Expr, count: int) -> Expr:
        """Return where its exponentials are."""
        return place if self.is_float else ramp(count, element * PARTIAL_SUMS)


def _same(value: float, count: int) -> Expr:
    return splat(value, "float32", count)


def _memory(count: int) -> Any:
    return T.sblock_alloc_buffer(int64((count,)), "float32", layout=None)


def _schedule(sch: Schedule, spec: Softmax, target: Target) -> None:
    """Share the tasks of a large tensor among threads."""
    (block,) = template_blocks(sch)
    (task,) = sch.get_loops(block)
    if extents(sch, [task]) * min(spec.span, COLUMNS) * spec.size >= SERIAL_ELEMENTS:
        sch.parallel(task)


SOFTMAX_COLUMNS_CPU = row_major_template("softmax", NAME, refuses, kernel, _schedule)
