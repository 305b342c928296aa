"""The templates of one instruction flavour: regular convolution, RGB stem, dense."""

from __future__ import annotations

import dataclasses
from functools import partial
from types import ModuleType
from typing import Any

from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cpu.contractions import conv2d, conv2d_stem, dense
from schedules.cpu.dot import Dot
from schedules.cpu.tiles import register_tiles
from schedules.cpu.tiles.prefetch import prefetched
from schedules.cpu.tiles.tile_rule import OutputRow
from schedules.template import ScheduleTemplate


def conv2d_template(dot: Dot, name: str = "conv2d") -> ScheduleTemplate:
    """Return the template of regular convolution, "<name>_<flavour>"."""
    return _template("conv2d", f"{name}_{dot.name}", conv2d, dot)


def conv2d_stem_template(dot: Dot) -> ScheduleTemplate:
    """Return the template of convolutions of few channels, "conv2d_stem_<flavour>"."""
    return _template("conv2d", f"conv2d_stem_{dot.name}", conv2d_stem, dot, conv2d_stem.STAGE)


def dense_template(dot: Dot) -> ScheduleTemplate:
    """Return the template of dense, "dense_<flavour>"."""
    return _template("dense", f"dense_{dot.name}", dense, dot)


def _template(
    kind: str, name: str, operator: ModuleType, dot: Dot, *stage: str
) -> ScheduleTemplate:
    """Return what ``operator`` (its module) computes with ``dot``, in the one loop body."""

    def _row(spec: Any, *, packed: bool = False) -> OutputRow:
        row: OutputRow = operator.row_of(spec)
        return dataclasses.replace(row, packed=packed, floats=dot.float32)

    def _default(sch: Schedule, spec: Any, target: Target) -> None:
        packed = dot.packs and spec.kind == "conv2d" and spec.y == "uint8" and not spec.rounding
        register_tiles.default(sch, target, _row(spec, packed=packed), *stage)

    def _space(sch: Schedule, spec: Any, target: Target) -> None:
        register_tiles.space(sch, target, _row(spec), *stage)

    return ScheduleTemplate(
        name=name,
        kind=kind,
        refuses=partial(operator.refuses, dot),
        layouts=operator.layouts,
        kernel=lambda spec, _layouts: operator.kernel(dot, name, spec),
        default=_default,
        space=_space,
        pack=partial(operator.pack, dot),
        finish=lambda func: dot.finish(prefetched(func)),
    )
