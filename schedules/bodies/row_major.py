"""Templates of row-major tensors whose loops are written out, so that none are scheduled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.layout import ROW
from schedules.spec import Spec
from schedules.template import AnySpec, Layouts, ScheduleTemplate


def as_built(sch: Schedule, spec: AnySpec, target: Target) -> None:
    """Schedule nothing: the loops stay as the kernel has them."""


def row_major_template(
    kind: str,
    name: str,
    refuses: Callable[[Any, Target], str | None],
    kernel: Callable[[Any], tirx.PrimFunc],
    schedule: Callable[[Schedule, Any, Target], None] = as_built,
) -> ScheduleTemplate:
    """Return a template whose default is the only point of its space."""
    return ScheduleTemplate(
        name=name,
        kind=kind,
        refuses=refuses,
        layouts=_row_major,
        kernel=lambda spec, _layouts: kernel(spec),
        default=schedule,
        space=schedule,
    )


def _row_major(spec: Spec, wanted: Layouts) -> Layouts:
    """Return the only layouts there are."""
    return Layouts(inputs=(ROW,) * len(spec.tensors), output=ROW)
