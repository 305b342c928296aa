"""The templates of one instruction flavour: regular convolution, RGB stem, dense."""

from __future__ import annotations

from functools import partial

from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cpu import conv2d, dense, register_tiles
from schedules.cpu.dot import Dot
from schedules.spec import Conv2d, Dense
from schedules.template import ScheduleTemplate


def conv2d_template(dot: Dot) -> ScheduleTemplate:
    """Return the template of regular convolution, "conv2d_<flavour>"."""

    def default(sch: Schedule, spec: Conv2d, target: Target) -> None:
        register_tiles.default(sch, target, conv2d.row_of(spec))

    def space(sch: Schedule, spec: Conv2d, target: Target) -> None:
        register_tiles.space(sch, target, conv2d.row_of(spec))

    name = f"conv2d_{dot.name}"
    return ScheduleTemplate(
        name=name,
        kind="conv2d",
        refuses=partial(conv2d.refuses, dot),
        layouts=conv2d.layouts,
        kernel=lambda spec, _layouts: conv2d.kernel(dot, name, spec),
        default=default,
        space=space,
        pack=partial(conv2d.pack, dot),
        x_types=dot.x_types,
    )


def dense_template(dot: Dot) -> ScheduleTemplate:
    """Return the template of dense, "dense_<flavour>"."""

    def default(sch: Schedule, spec: Dense, target: Target) -> None:
        register_tiles.default(sch, target, dense.row_of(spec))

    def space(sch: Schedule, spec: Dense, target: Target) -> None:
        register_tiles.space(sch, target, dense.row_of(spec))

    name = f"dense_{dot.name}"
    return ScheduleTemplate(
        name=name,
        kind="dense",
        refuses=partial(dense.refuses, dot),
        layouts=dense.layouts,
        kernel=lambda spec, _layouts: dense.kernel(dot, name, spec),
        default=default,
        space=space,
        pack=partial(dense.pack, dot),
        x_types=dot.x_types,
    )
