"""Concatenation of many tensors on a CPU: a copy of each.

    x0, x1, ... : logical, all in the layout of y, boundaries between blocks
    y           : logical

Loops after scheduling, for each input: p:outer... flat, where flat runs over the concatenated axis
and all behind it. Of few inputs the body chooses the one to read from, and LLVM moves the choice
out of the loops; from about ten on it no longer does, and a loop is a hundred times slower. Where
boundaries fall inside of blocks of channels, see ``joined_blocks``.

Exact:  elements are moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T

from schedules.bodies import concat
from schedules.bodies.arguments import int64
from schedules.bodies.body import template_name
from schedules.bodies.prim_func import axes
from schedules.cpu.moves import joined_blocks
from schedules.cpu.moves.exchange import is_copied_by_tiles
from schedules.cpu.moves.in_registers import Writer, on_cpu_in_registers
from schedules.spec import Concat
from schedules.template import Layouts

FEW = 8  # inputs of a concat up to which one element-wise kernel is used


def kernel(spec: Concat, layouts: Layouts) -> tirx.PrimFunc:
    """Return the unscheduled kernel."""
    if len(spec.shapes) <= FEW or not concat.is_aligned(spec, layouts):
        return concat.kernel(spec, layouts)
    axis, begin = concat.physical_axis(spec, layouts), 0
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_attr({"tirx.noalias": True})
        shapes = [layouts.output.physical_shape(spec.shape(name)) for name in (*spec.tensors, "y")]
        *inputs, y = (
            T.arg(name, T.buffer(int64(shape), spec.x, layout=None))
            for name, shape in zip((*spec.tensors, "y"), shapes, strict=True)
        )
        with T.sblock("root"):
            for x, shape in zip(inputs, shapes[:-1], strict=True):
                _copy(x, shape, y, axis, begin)
                begin += shape[axis]
    return builder.get()


def _copy(x: Any, shape: Sequence[Any], y: Any, axis: int, begin: int) -> None:
    """Emit the copy of one input to its part of y."""
    with T.grid(*int64(shape)) as loops, T.sblock("concat"):
        names = " ".join(f"i{number}" for number in range(len(shape)))
        index = axes(names, int64(shape), loops)
        moved = [*index[:axis], index[axis] + begin, *index[axis + 1 :]]
        T.reads(x[tuple(index)])
        T.writes(y[tuple(moved)])
        T.sblock_attr({"template": template_name("concat"), "run": len(shape) - axis})
        T.buffer_store(y, x[tuple(index)], moved)


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
CONCAT_CPU = replace(_IN_REGISTERS, layouts=_layouts)
