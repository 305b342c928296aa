"""Concatenation on a CPU: a copy of each input.

    x0, x1, ... : logical, all in the layout of y, boundaries between blocks
    y           : logical

Loops after scheduling (p parallel), where run goes over the concatenated axis and all behind it:

    inputs lie in y one behind the other    for each input: p:run
    else                                    p:outer   for each input: run

One loop over y would choose an input for each element, a choice that LLVM seldom moves out of it.
Where boundaries fall inside of blocks of channels, see ``joined_blocks``; where layouts differ,
elements are gathered as ``schedules.bodies.concat`` says.

Exact:  elements are moved.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm.tirx.script import builder as T

from schedules.bodies import concat
from schedules.bodies.arguments import int64
from schedules.bodies.body import template_blocks, template_name
from schedules.bodies.buffers import declare_arguments, flat
from schedules.bodies.prim_func import axes, prim_func
from schedules.cpu import elementwise
from schedules.cpu.moves import joined_blocks
from schedules.cpu.moves.exchange import is_copied_by_tiles
from schedules.cpu.moves.in_registers import Writer, on_cpu_in_registers
from schedules.spec import Concat
from schedules.template import Layouts

COPY = "copy"  # the name of the blocks that copy an input


def kernel(spec: Concat, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    if not concat.is_aligned(spec, layouts):
        return concat.kernel(spec, layouts)
    axis = concat.physical_axis(spec, layouts)
    shapes = {
        name: int64(layouts.output.physical_shape(spec.shape(name)))
        for name in (*spec.tensors, "y")
    }
    runs = {name: math.prod(int(size) for size in shape[axis:]) for name, shape in shapes.items()}
    with prim_func() as builder:
        buffers = declare_arguments({name: (shape, spec.x) for name, shape in shapes.items()})
        with T.sblock("root"):
            elements = {name: flat(buffer) for name, buffer in buffers.items()}
            outer, begin = math.prod(shapes["y"][:axis], start=T.int64(1)), 0
            with T.serial(outer) as row:
                for name in spec.tensors:
                    with T.serial(T.int64(runs[name])) as column, T.sblock(COPY):
                        extents = (outer, T.int64(runs[name]))
                        i, j = axes("i j", extents, (row, column))
                        source, target = i * runs[name] + j, i * runs["y"] + begin + j
                        T.reads(elements[name][source])
                        T.writes(elements["y"][target])
                        T.sblock_attr({"template": template_name("concat")})
                        T.buffer_store(elements["y"], elements[name][source], [target])
                    begin += runs[name]
    return builder.get()


def default(sch: Schedule, spec: Concat, target: Target) -> None:
    """Give copies of many elements to threads; see the module for the loops."""
    if not _copies(sch):
        return _IN_REGISTERS.default(sch, spec, target)
    nests = [sch.get_loops(block) for block in template_blocks(sch)]
    if sum(elementwise.extents(sch, list(loops)) for loops in nests) >= elementwise.SERIAL_ELEMENTS:
        row = nests[0][0]
        one_row = isinstance(rows := sch.get(row).extent, tirx.IntImm) and int(rows) == 1
        for loop in [loops[-1] for loops in nests] if one_row else [row]:
            sch.parallel(loop)
    return None


def space(sch: Schedule, spec: Concat, target: Target) -> None:
    """Apply the same loops to copies, which leave nothing to choose."""
    (default if _copies(sch) else _IN_REGISTERS.space)(sch, spec, target)


def _copies(sch: Schedule) -> bool:
    """Whether a kernel copies its inputs one by one."""
    first, *_ = template_blocks(sch)
    return bool(sch.get(first).name_hint == COPY)


def _writer(spec: Concat, layouts: Layouts) -> Writer | None:
    return joined_blocks.kernel if joined_blocks.pieces(spec, layouts) else None


def _layouts(spec: Concat, wanted: Layouts) -> Layouts:
    """Copy an input to the layout of y first, if that is done by tiles in registers."""
    layouts = concat.CONCAT.layouts(spec, wanted)
    inputs = tuple(
        layouts.output
        if is_copied_by_tiles(dims, spec.x, Layouts(inputs=(layout,), output=layouts.output))
        else layout
        for dims, layout in zip(spec.shapes, layouts.inputs, strict=True)
    )
    return replace(layouts, inputs=inputs)


_IN_REGISTERS = on_cpu_in_registers(replace(concat.CONCAT, kernel=kernel), _writer)
CONCAT_CPU = replace(_IN_REGISTERS, layouts=_layouts, default=default, space=space)
