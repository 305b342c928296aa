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
from tvm.script import tirx as T
from tvm.target import Target
from tvm.tirx import Expr

from schedules.bodies.body import template_blocks
from schedules.bodies.buffers import whole
from schedules.bodies.expressions import is_ragged
from schedules.cpu.elementwise import ElementwiseUnrolling, refuses_kind
from schedules.layout import ROW, Layout
from schedules.spec import Observe
from schedules.template import Layouts, ScheduleTemplate

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
    tasks, total_size, begin, length = parts.count, parts.total, parts.begin, parts.length
    most_tasks = T.int64(MAX_TASKS)
    most, least, sortable = T.int32(INFINITY), T.int32(~INFINITY), _sortable

    def _key(value: Expr, otherwise: Expr) -> Expr:
        key = _sortable(tirx.reinterpret("int32", value))
        return tirx.Select(_is_finite(value), key, otherwise)

    def _is_bad(value: Expr) -> Expr:
        return tirx.Select(_is_finite(value), T.int32(0), T.int32(1))

    # Loops begin at zero: TVM's CanonicalizeLoop loses other beginnings.
    @T.prim_func(private=True, s_tir=True)
    def observe_range(
        x: T.Buffer(parts.shape, "float32"), y: T.Buffer((T.int64(3),), "float32")
    ) -> None:
        """Write the least and the largest finite value, and how many are not finite."""
        T.func_attr({"tirx.noalias": True})
        low = T.sblock_alloc_buffer((most_tasks,), "int32")
        high = T.sblock_alloc_buffer((most_tasks,), "int32")
        bad = T.sblock_alloc_buffer((most_tasks,), "int32")
        for task in range(tasks):
            with T.sblock("observe"):
                t = T.axis.spatial(tasks, task)
                T.reads(whole(x))
                T.writes(low[t], high[t], bad[t])
                T.sblock_attr({"template": "observe_cpu"})
                flat = T.decl_buffer((total_size,), "float32", data=x.data)
                low[t] = most
                high[t] = least
                bad[t] = 0
                for i in range(length(t)):
                    low[t] = T.min(low[t], _key(flat[begin(t) + i], most))
                    high[t] = T.max(high[t], _key(flat[begin(t) + i], least))
                    bad[t] = bad[t] + _is_bad(flat[begin(t) + i])
        for unit in range(T.int64(1)):
            with T.sblock("merge"):
                T.axis.spatial(T.int64(1), unit)
                T.reads(low[0:tasks], high[0:tasks], bad[0:tasks])
                T.writes(y[0:3])
                total = T.sblock_alloc_buffer((T.int64(3),), "int32")
                total[0] = most
                total[1] = least
                total[2] = 0
                for other in range(tasks):
                    total[0] = T.min(total[0], low[other])
                    total[1] = T.max(total[1], high[other])
                    total[2] = total[2] + bad[other]
                y[0] = T.reinterpret(sortable(total[0]), dtype="float32")
                y[1] = T.reinterpret(sortable(total[1]), dtype="float32")
                y[2] = T.Cast("float32", total[2])

    return observe_range


def _histogram(spec: Observe, parts: Tasks) -> tirx.PrimFunc:
    tasks, bins, slots = parts.count, T.int64(spec.bins), T.int64(spec.bins + 1)
    total_size, begin, length = parts.total, parts.begin, parts.length
    copies, chunk_size, most_tasks = T.int64(COPIES), T.int64(CHUNK), T.int64(MAX_TASKS)

    def _left(task: Expr, chunk: Expr) -> Expr:
        return T.min(chunk_size, length(task) - chunk * chunk_size)

    def slot(value: Expr, low: Expr, inverse: Expr, mask: Expr) -> Expr:
        """Return the bin of a value; the last one is for what is not counted."""
        seen = tirx.reinterpret("float32", tirx.reinterpret("int32", value) & mask)
        position = (seen - low) * inverse
        highest, zero = T.float32(spec.bins - 1), T.float32(0)
        # Not tirx.max: a NaN, from overflow, must not become an index.
        inside = tirx.Select(position > zero, tirx.min(position, highest), zero).astype("int32")
        return tirx.Select(_is_finite(value), inside, T.int32(spec.bins))

    @T.prim_func(private=True, s_tir=True)
    def observe_histogram(
        x: T.Buffer(parts.shape, "float32"),
        low: T.Buffer((T.int64(1),), "float32"),
        inverse: T.Buffer((T.int64(1),), "float32"),
        mask: T.Buffer((T.int64(1),), "int32"),
        y: T.Buffer((bins,), "int32"),
    ) -> None:
        """Count values by bin: every task for itself, then all together."""
        T.func_attr({"tirx.noalias": True})
        partial = T.sblock_alloc_buffer((most_tasks, copies * slots), "int32")
        for task in range(tasks):
            with T.sblock("observe"):
                t = T.axis.spatial(tasks, task)
                T.reads(whole(x), low[0], inverse[0], mask[0])
                T.writes(partial[t, 0 : copies * slots])
                T.sblock_attr({"template": "observe_cpu"})
                flat = T.decl_buffer((total_size,), "float32", data=x.data)
                place = T.sblock_alloc_buffer((chunk_size,), "int32")
                counted = T.if_then_else(inverse[0] > 0.0, T.int64(1), T.int64(0))
                for b in range(counted * copies * slots):
                    partial[t, b] = 0
                for chunk in range(counted * ((length(t) + chunk_size - 1) // chunk_size)):
                    for j in range(_left(t, chunk)):
                        place[j] = slot(
                            flat[begin(t) + chunk * chunk_size + j], low[0], inverse[0], mask[0]
                        ) + T.Cast("int32", j % copies * slots)
                    for j in range(_left(t, chunk)):
                        partial[t, place[j]] = partial[t, place[j]] + 1
        for unit in range(T.int64(1)):
            with T.sblock("merge"):
                T.axis.spatial(T.int64(1), unit)
                T.reads(partial[0:tasks, 0 : copies * slots], inverse[0])
                T.writes(y[0:bins])
                for b in range(bins):
                    y[b] = 0
                for other in range(T.if_then_else(inverse[0] > 0.0, tasks, T.int64(0))):
                    for copy, b in T.grid(copies, bins):
                        y[b] = y[b] + partial[other, copy * slots + b]

    return observe_histogram


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
    name="observe_cpu",
    kind="observe",
    refuses=refuses_kind,
    layouts=_layouts,
    kernel=kernel,
    default=default,
    space=space,
    general=general,
)
