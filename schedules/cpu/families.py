"""The templates of one instruction flavour: regular convolution, RGB stem, dense."""

from __future__ import annotations

from functools import partial

from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cpu import conv2d, conv2d_stem, dense, register_tiles
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


def conv2d_stem_template(dot: Dot) -> ScheduleTemplate:
    """Return the template of convolutions of few channels, "conv2d_stem_<flavour>"."""

    def default(sch: Schedule, spec: Conv2d, target: Target) -> None:
        register_tiles.default(sch, target, conv2d_stem.row_of(spec), conv2d_stem.STAGE)

    def space(sch: Schedule, spec: Conv2d, target: Target) -> None:
        register_tiles.space(sch, target, conv2d_stem.row_of(spec), conv2d_stem.STAGE)

    name = f"conv2d_stem_{dot.name}"
    return ScheduleTemplate(
        name=name,
        kind="conv2d",
        refuses=partial(conv2d_stem.refuses, dot),
        layouts=conv2d_stem.layouts,
        kernel=lambda spec, _layouts: conv2d_stem.kernel(dot, name, spec),
        default=default,
        space=space,
        pack=partial(conv2d_stem.pack, dot),
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
