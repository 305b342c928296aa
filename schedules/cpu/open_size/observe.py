"""Statistics of a float32 activation, for calibration, in any layout.

    x : float32, logical any shape; memory is taken as one row of values
    y : range: float32 (3,) = min, max, count of values that are not finite;
        histogram: int32 (bins,)

Loops after scheduling (p parallel):

    p:task   value      one partial result per task, none shared
    task                merge

There are as many tasks as values are worth. Blocks with lanes past the last channel are made row
major before.

Exact:  minima, maxima and counts do not depend on the order. Floats are compared as int32 that sort
        alike, since LLVM vectorizes only those. No value at all: min = inf, max = -inf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.body import template_blocks
from schedules.bodies.buffers import allocate, declare_arguments, flat, whole
from schedules.bodies.expressions import is_ragged
from schedules.bodies.prim_func import axes, prim_func
from schedules.cpu.elementwise import ElementwiseUnrolling, refuses_kind
from schedules.layout import ROW, Layout
from schedules.spec import Observe
from schedules.template import Layouts, ScheduleTemplate

NAME = "observe_cpu"
MAX_TASKS = 16
TASK_ELEMENTS = 32768  # a task has at least so many, to be worth its partial result
COPIES = 4  # of each partial histogram: equal neighbours are counted in different ones
CHUNK = 256  # values whose bins are computed before they are counted
INFINITY = 0x7F800000  # bits of float32 infinity; larger magnitudes are NaN


@dataclass(frozen=True)
class Tasks:
    """How the values, one behind the other in memory, are dealt out to tasks."""

    shape: tuple[Any, ...]  # int64, as Relax has it
    total: Any
    count: Any

    def begin(self, task: Expr) -> Expr:
        """Return the first value of ``task``."""
        return task * self.total // self.count

    def length(self, task: Expr) -> Expr:
        """Return how many values ``task`` has."""
        return self.begin(task + T.int64(1)) - self.begin(task)


def _tasks(spec: Observe, layout: Layout) -> Tasks:
    shape = tuple(
        T.int64(axis) if isinstance(axis, int) else axis
        for axis in layout.physical_shape(spec.dims)
    )
    total = math.prod(shape, start=T.int64(1))
    count = tirx.max(tirx.min(total // TASK_ELEMENTS, T.int64(MAX_TASKS)), T.int64(1))
    return Tasks(shape, total, count)


def _layouts(spec: Observe, wanted: Layouts) -> Layouts:
    """Take x as it comes, row major where a block has lanes past the last channel."""
    (layout,) = wanted.inputs
    return Layouts(inputs=(ROW if is_ragged(layout, spec.dims) else layout,), output=ROW)


def general(spec: Observe, layouts: Layouts) -> tuple[Observe, Layouts]:
    """Return the kernel for tensors of any size.

    A network has tensors of dozens of sizes, and LLVM takes a tenth of a second for each.
    """
    if any(not isinstance(size, int) for size in spec.dims):
        return spec, layouts
    rank = len(layouts.inputs[0].physical_shape(spec.dims))
    dims = tuple(tirx.Var(f"size{axis}", "int64") for axis in range(rank))
    return replace(spec, dims=dims), Layouts(inputs=(ROW,), output=ROW)


def kernel(spec: Observe, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    tasks = _tasks(spec, layouts.inputs[0])
    return _range(tasks) if spec.statistic == "range" else _histogram(spec, tasks)


def _sortable(bits: Expr) -> Expr:
    """Map the bits of a float32 to an int32 that sorts alike; the map is its own inverse."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


def _is_finite(x: Expr) -> Expr:
    return (tirx.reinterpret("int32", x) & 0x7FFFFFFF) < INFINITY


def _range(parts: Tasks) -> tirx.PrimFunc:
    """Return what writes the least and the largest finite value, and how many are not finite."""
    tasks, most, least = parts.count, T.int32(INFINITY), T.int32(~INFINITY)

    def _key(value: Expr, otherwise: Expr) -> Expr:
        key = _sortable(tirx.reinterpret("int32", value))
        return tirx.Select(_is_finite(value), key, otherwise)

    def _is_bad(value: Expr) -> Expr:
        return tirx.Select(_is_finite(value), T.int32(0), T.int32(1))

    shapes = {"x": (parts.shape, "float32"), "y": ((3,), "float32")}
    with prim_func() as builder:
        x, y = declare_arguments(shapes).values()
        with T.sblock("root"):
            low, high, bad = (
                allocate(name, (MAX_TASKS,), "int32") for name in ("low", "high", "bad")
            )
            # Loops begin at zero: TVM's CanonicalizeLoop loses other beginnings.
            with T.serial(T.int64(0), tasks) as task, T.sblock("observe"):
                (t,) = axes("t", [tasks], [task])
                T.reads(whole(x))
                T.writes(low[t], high[t], bad[t])
                T.sblock_attr({"template": NAME})
                values = flat(x)
                T.buffer_store(low, most, [t])
                T.buffer_store(high, least, [t])
                T.buffer_store(bad, T.int32(0), [t])
                with T.serial(T.int64(0), parts.length(t)) as i:
                    value = values[parts.begin(t) + i]
                    T.buffer_store(low, tirx.min(low[t], _key(value, most)), [t])
                    T.buffer_store(high, tirx.max(high[t], _key(value, least)), [t])
                    T.buffer_store(bad, bad[t] + _is_bad(value), [t])
            with T.serial(T.int64(0), T.int64(1)) as unit, T.sblock("merge"):
                axes("unit", [T.int64(1)], [unit])
                T.reads(*(partial[0:tasks] for partial in (low, high, bad)))
                T.writes(whole(y))
                total = allocate("total", (3,), "int32")
                for index, start in enumerate((most, least, T.int32(0))):
                    T.buffer_store(total, start, [index])
                with T.serial(T.int64(0), tasks) as other:
                    T.buffer_store(total, tirx.min(total[0], low[other]), [0])
                    T.buffer_store(total, tirx.max(total[1], high[other]), [1])
                    T.buffer_store(total, total[2] + bad[other], [2])
                for index in range(2):
                    T.buffer_store(y, T.reinterpret("float32", _sortable(total[index])), [index])
                T.buffer_store(y, T.Cast("float32", total[2]), [2])
    return builder.get()


def _histogram(spec: Observe, parts: Tasks) -> tirx.PrimFunc:
    """Return what counts values by bin: every task for itself, then all together."""
    tasks, bins, slots = parts.count, T.int64(spec.bins), T.int64(spec.bins + 1)
    copies, chunk_size = T.int64(COPIES), T.int64(CHUNK)

    def _left(task: Expr, chunk: Expr) -> Expr:
        return tirx.min(chunk_size, parts.length(task) - chunk * chunk_size)

    def _slot(value: Expr, low: Expr, inverse: Expr, mask: Expr) -> Expr:
        """Return the bin of a value; the last one is for what is not counted."""
        seen = tirx.reinterpret("float32", tirx.reinterpret("int32", value) & mask)
        position = (seen - low) * inverse
        highest, zero = T.float32(spec.bins - 1), T.float32(0)
        # Not tirx.max: a NaN, from overflow, must not become an index.
        inside = tirx.Select(position > zero, tirx.min(position, highest), zero).astype("int32")
        return tirx.Select(_is_finite(value), inside, T.int32(spec.bins))

    shapes = {
        "x": (parts.shape, "float32"),
        "low": ((1,), "float32"),
        "inverse": ((1,), "float32"),
        "mask": ((1,), "int32"),
        "y": ((bins,), "int32"),
    }
    with prim_func() as builder:
        x, low, inverse, mask, y = declare_arguments(shapes).values()
        is_counted = inverse[0] > T.float32(0)
        with T.sblock("root"):
            partial = allocate("partial", (MAX_TASKS, copies * slots), "int32")
            with T.serial(T.int64(0), tasks) as task, T.sblock("observe"):
                (t,) = axes("t", [tasks], [task])
                T.reads(whole(x), low[0], inverse[0], mask[0])
                T.writes(partial[t, 0 : copies * slots])
                T.sblock_attr({"template": NAME})
                values = flat(x)
                place = allocate("place", (CHUNK,), "int32")
                counted = T.if_then_else(is_counted, T.int64(1), T.int64(0))
                with T.serial(T.int64(0), counted * copies * slots) as b:
                    T.buffer_store(partial, T.int32(0), [t, b])
                chunks = (parts.length(t) + chunk_size - 1) // chunk_size
                with T.serial(T.int64(0), counted * chunks) as chunk:
                    with T.serial(T.int64(0), _left(t, chunk)) as j:
                        value = values[parts.begin(t) + chunk * chunk_size + j]
                        copy = T.Cast("int32", j % copies * slots)
                        T.buffer_store(place, _slot(value, low[0], inverse[0], mask[0]) + copy, [j])
                    with T.serial(T.int64(0), _left(t, chunk)) as j:
                        T.buffer_store(partial, partial[t, place[j]] + 1, [t, place[j]])
            with T.serial(T.int64(0), T.int64(1)) as unit, T.sblock("merge"):
                axes("unit", [T.int64(1)], [unit])
                T.reads(partial[0:tasks, 0 : copies * slots], inverse[0])
                T.writes(whole(y))
                with T.serial(T.int64(0), bins) as b:
                    T.buffer_store(y, T.int32(0), [b])
                merged = T.if_then_else(is_counted, tasks, T.int64(0))
                with T.serial(T.int64(0), merged) as other, T.grid(copies, bins) as (copy, b):
                    T.buffer_store(y, y[b] + partial[other, copy * slots + b], [b])
    return builder.get()


def default(sch: Schedule, spec: Observe, target: Target) -> None:
    """Apply fixed tiles."""
    _apply(sch, ElementwiseUnrolling())


def space(sch: Schedule, spec: Observe, target: Target) -> None:
    """Apply the same loops; MetaSchedule samples the unrolling."""
    _apply(sch, ElementwiseUnrolling(sch.sample_categorical([0, 8, 16, 64], [0.25] * 4)))


def _apply(sch: Schedule, tiles: ElementwiseUnrolling) -> None:
    (block,) = template_blocks(sch)
    (task,) = sch.get_loops(block)
    sch.parallel(task)
    if tiles.unroll is not None:
        sch.annotate(task, "pragma_auto_unroll_max_step", tiles.unroll)


OBSERVE_CPU = ScheduleTemplate(
    name=NAME,
    kind="observe",
    refuses=refuses_kind,
    layouts=_layouts,
    kernel=kernel,
    default=default,
    space=space,
    general=general,
)
