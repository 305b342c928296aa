"""Any unary function of an integer tensor, by its 256 values, a vector of elements at once.

    x, y  : logical, any shape, in one layout: contiguous bytes
    table : (256,) of y's type, indexed by x, or x + 128 where x is int8

Loops after scheduling (p parallel):

    p:vector                    ``lanes`` elements

The last vector ends where y ends, and so overlaps the one before it: both write the same there.

Exact:  loads and shuffles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm.tirx import Expr
from tvm.tirx.script import builder as T

from schedules.bodies.arguments import int64
from schedules.bodies.body import template_blocks
from schedules.bodies.buffers import flat, ramp, whole
from schedules.bodies.elementwise import first_layout
from schedules.bodies.prim_func import axes, prim_func
from schedules.bodies.table import ENTRIES
from schedules.cpu.elementwise import extents, refuses_kind
from schedules.spec import Table
from schedules.target_features import has_feature
from schedules.template import Layouts, ScheduleTemplate

SERIAL_ELEMENTS = 131072  # elements of a tensor; waking other threads for fewer does not pay


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """How an instruction set looks up a vector of bytes.

    Parameters
    ----------
    name
        The template's name.
    feature
        LLVM's name of what the CPU must have.
    lanes
        How many bytes a vector has.
    part
        How many bytes the parts have in which ``find`` takes the table.
    find
        ``(x, parts)``, vectors of int8 -> the bytes at x, taken as 0 to 255.
    """

    name: str
    feature: str
    lanes: int
    part: int
    find: Callable[[Expr, Sequence[Expr]], Expr]


def table_template(lookup: Lookup) -> ScheduleTemplate:
    """Return the template of one instruction set."""
    return ScheduleTemplate(
        name=lookup.name,
        kind="table",
        refuses=partial(_refuses, lookup),
        layouts=first_layout,
        kernel=partial(_kernel, lookup),
        default=partial(_schedule, lookup),
        space=partial(_schedule, lookup),
    )


def byte_everywhere(value: int, lanes: int) -> Expr:
    """Return ``value``, 0 to 255, in each lane of an int8 vector."""
    return tirx.Broadcast(tirx.const(value - 256 if value > 127 else value, "int8"), lanes)


def _refuses(lookup: Lookup, spec: Table, target: Target) -> str | None:
    reason = refuses_kind(spec, target)
    if reason is not None:
        return reason
    if not has_feature(lookup.feature, target):
        return f"target has no {lookup.feature}"
    if spec.by_channel:
        return "each channel has a table of its own"
    if math.prod(size for size in spec.dims if isinstance(size, int)) < lookup.lanes:
        return f"fewer than {lookup.lanes} elements"
    return None


def _kernel(lookup: Lookup, spec: Table, layouts: Layouts) -> tirx.PrimFunc:
    with prim_func() as builder:
        shape = int64(layouts.output.physical_shape(spec.dims))
        x = T.arg("x", T.buffer(shape, spec.x, layout=None))
        table = T.arg("table", T.buffer(int64([ENTRIES]), spec.y, layout=None))
        y = T.arg("y", T.buffer(shape, spec.y, layout=None))
        size, lanes = math.prod(shape), T.int64(lookup.lanes)
        vectors = tirx.ceildiv(size, lanes)
        with T.sblock("root"), T.serial(vectors) as loop, T.sblock("lookup"):
            (vector,) = axes("vector", [vectors], [loop])
            T.reads(whole(x), whole(table))
            T.writes(whole(y))
            T.sblock_attr({"template": lookup.name})
            sources, results = flat(x), flat(y)
            here = ramp(lookup.lanes, tirx.min(vector * lanes, size - lanes))
            entries = lookup.find(_bytes(sources, here), _parts(lookup, spec, table))
            dtype = f"{spec.y}x{lookup.lanes}"
            T.buffer_store(results, tirx.reinterpret(dtype, entries), [here])
    return builder.get()


def _parts(lookup: Lookup, spec: Table, table: Any) -> list[Expr]:
    """Return the table as vectors, in the order of x taken as unsigned."""
    firsts = range(0, ENTRIES, lookup.part)
    parts = [_bytes(table, ramp(lookup.part, T.int64(first))) for first in firsts]
    middle = len(parts) // 2 if spec.x == "int8" else 0  # -128, the first entry's, is byte 128
    return parts[middle:] + parts[:middle]


def _bytes(buffer: Any, where: Expr) -> Expr:
    """Return the elements of ``buffer`` at a ramp, bound, as a vector of int8."""
    return T.Bind(tirx.reinterpret(f"int8x{where.lanes}", buffer[where]))


def _schedule(lookup: Lookup, sch: Schedule, spec: Table, target: Target) -> None:
    """Share the vectors of a large tensor among threads."""
    (block,) = template_blocks(sch)
    loops = list(sch.get_loops(block))
    if extents(sch, loops) * lookup.lanes >= SERIAL_ELEMENTS:
        sch.parallel(loops[0])
