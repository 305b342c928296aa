"""Templates of convolution and dense for instructions that multiply a copy of x."""

from __future__ import annotations

from functools import partial
from types import ModuleType
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cpu.contractions import conv2d, conv2d_stem, dense
from schedules.cpu.dot import Dot, accumulators
from schedules.cpu.strips import conv2d_stem_strips, conv2d_strips, dense_strips
from schedules.cpu.strips.strip_kernel import strip_prim_func
from schedules.cpu.strips.strip_rule import StripTiles, default_strips, sizes
from schedules.cpu.tiles.tile_rule import divisors
from schedules.cpu.written_out import note, sampled, written
from schedules.template import Layouts, ScheduleTemplate


def conv2d_strip_template(dot: Dot, name: str = "conv2d") -> ScheduleTemplate:
    """Return the template of regular convolution, "<name>_<flavour>"."""
    return _template("conv2d", f"{name}_{dot.name}", dot, conv2d, conv2d_strips)


def conv2d_stem_strip_template(dot: Dot) -> ScheduleTemplate:
    """Return the template of convolutions of few channels, "conv2d_stem_<flavour>"."""
    return _template("conv2d", f"conv2d_stem_{dot.name}", dot, conv2d_stem, conv2d_stem_strips)


def dense_strip_template(dot: Dot) -> ScheduleTemplate:
    """Return the template of dense, "dense_<flavour>"."""
    return _template("dense", f"dense_{dot.name}", dot, dense, dense_strips)


def _template(
    kind: str, name: str, dot: Dot, operator: ModuleType, strips: ModuleType
) -> ScheduleTemplate:
    """Return what ``operator`` (its module) computes with ``dot``, by ``strips`` (likewise)."""

    def _written(spec: Any, choices: list[int]) -> tirx.PrimFunc:
        chosen = StripTiles(*choices)
        return strip_prim_func(dot, name, strips.strip_of(dot, spec, chosen), chosen)

    def _kernel(spec: Any, _layouts: Layouts) -> tirx.PrimFunc:
        return _written(spec, [1, 1, 1, 1])

    def _default(sch: Schedule, spec: Any, target: Target) -> None:
        extents = strips.extents_of(dot, spec)
        chosen = default_strips(extents, target, accumulators(target))
        note(sch, [chosen.rows, chosen.parts, chosen.columns, chosen.blocks])

    def _space(sch: Schedule, spec: Any, target: Target) -> None:
        extents, limit = strips.extents_of(dot, spec), accumulators(target)
        rows = sampled(sch, sizes(extents))
        width = int(sch.get(rows)) if extents.flat else extents.columns
        blocks = sampled(sch, [d for d in divisors(extents.group_blocks) if d <= limit])
        widest = min(limit // int(sch.get(blocks)), width)
        columns = sampled(sch, range(1, widest + 1))
        parts = sampled(sch, divisors(extents.blocks // int(sch.get(blocks))))
        note(sch, [rows, parts, columns, blocks])

    return ScheduleTemplate(
        name=name,
        kind=kind,
        refuses=partial(operator.refuses, dot),
        layouts=operator.layouts,
        kernel=_kernel,
        default=_default,
        space=_space,
        pack=partial(strips.pack, dot),
        finish=lambda func: written(func, _written),
    )
